"""The TLS context of a client."""

import ssl

from borzoi.client.options import Tls
from borzoi.model.errors import InvalidConnectionString


def context_of(tls: Tls) -> ssl.SSLContext:
    """Return the context that verifies the server's certificate; reads the CA file."""
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
