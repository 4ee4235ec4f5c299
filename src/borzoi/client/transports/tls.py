"""The TLS context of a client."""

import ssl

from borzoi.client.options import Tls
from borzoi.model.errors import InvalidConnectionString


def context_of(tls: Tls) -> ssl.SSLContext:
    """The context that judges the server's certificate; reads the file of trusted ones."""
    try:
        context = ssl.create_default_context(cafile=tls.ca_file)
    except (OSError, ssl.SSLError) as fault:
        raise InvalidConnectionString(
            f"tls_ca_file is {tls.ca_file!r}; a readable PEM file is allowed: {fault}"
        ) from fault
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not tls.validate_certificate:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
