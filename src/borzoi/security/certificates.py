"""TLS contexts for the listeners: from the operator's files, or self-signed."""

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from os import PathLike, fspath
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from borzoi.model.errors import InvalidConfiguration
from borzoi.model.value import Value
from borzoi.protocol.hiding import hiding

#: Self-signed certificates are generated at each start, so a year is long enough.
SELF_SIGNED_DAYS: Final = 365

#: Clock skew: a certificate that starts now is not yet valid for a peer whose clock is behind.
CLOCK_SKEW: Final = timedelta(hours=1)

LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "::1")


class SelfSigned(Value):
    """A certificate and its key, in PEM."""

    certificate: bytes
    key: bytes
    __repr__ = hiding("key")


def server_context(cert_file: str | PathLike[str], key_file: str | PathLike[str]) -> ssl.SSLContext:
    """Return the context of a listener with the operator's certificate (a PEM chain)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(fspath(cert_file), fspath(key_file))
    except (OSError, ssl.SSLError) as error:
        raise InvalidConfiguration(
            f"cannot use the certificate {fspath(cert_file)!r} with the key {fspath(key_file)!r}:"
            f" {error}"
        ) from error
    return context


def self_signed_context(host: str = "localhost") -> ssl.SSLContext:
    """Return the context of a listener with a new self-signed certificate, for development."""
    pair = self_signed(host)
    # The ssl module loads keys only from files; the directory is private and temporary.
    with TemporaryDirectory(prefix="borzoi-tls-") as directory:
        cert_file, key_file = Path(directory, "cert.pem"), Path(directory, "key.pem")
        cert_file.write_bytes(pair.certificate)
        key_file.write_bytes(pair.key)
        return server_context(cert_file, key_file)


def self_signed(host: str = "localhost") -> SelfSigned:
    """Generate a key (P-256) and its certificate for the host and for every local name."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host[:64])])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + timedelta(days=SELF_SIGNED_DAYS))
        .add_extension(x509.SubjectAlternativeName(_alternative_names(host)), critical=False)
        # A leaf, not an authority: rustls clients reject a server whose certificate is a CA.
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        # Strict clients want both, and those of Python are strict from 3.13 on.
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False
        )
    )
    certificate = builder.sign(key, hashes.SHA256())
    return SelfSigned(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


def _alternative_names(host: str) -> list[x509.GeneralName]:
    return [_general_name(name) for name in dict.fromkeys((host, *LOCAL_NAMES))]


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
