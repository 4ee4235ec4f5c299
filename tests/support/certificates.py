"""A server with a certificate, and the authority that a client can trust."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from tests.support.server import running_server

from borzoi.client.options import Address
from borzoi.security.certificates import self_signed

#: Where the settings of each transport have its certificate.
SECTIONS = {
    "tcp": "TCP_TLS",
    "websocket": "WEBSOCKET_TLS",
    "http": "HTTP_TLS",
    "quic": "QUIC_CERTIFICATE",
}
AUTHORITY = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "An authority for tests")])
SIGNS_CERTIFICATES = x509.KeyUsage(
    key_cert_sign=True,
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    crl_sign=False,
    encipher_only=False,
    decipher_only=False,
)
SUBJECT = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])


@contextmanager
def encrypted_server(folder: Path, transport: str) -> Iterator[tuple[Address, Path]]:
    """A server that also has this transport, encrypted: its address there, whom to trust."""
    certificate, key, authority = write_certificates(folder)
    section = SECTIONS[transport]
    settings = {
        f"{transport.upper()}_ENABLED": "true",
        f"{transport.upper()}_ADDRESS": "127.0.0.1:0",
        f"{section}_CERT_FILE": str(certificate),
        f"{section}_KEY_FILE": str(key),
    }
    if transport != "quic":
        settings[f"{section}_ENABLED"] = "true"
    if transport != "http":
        settings[f"{section}_SELF_SIGNED"] = "false"
    with running_server(settings) as server:
        yield Address(*server.addresses[transport]), authority


def trusting() -> ssl.SSLContext:
    """For a client that takes any certificate."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def write_self_signed(folder: Path) -> tuple[Path, Path]:
    """Files with a self-signed certificate for localhost and its key."""
    pair = self_signed("localhost")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    return certificate, key


def write_certificates(folder: Path) -> tuple[Path, Path, Path]:
    """Files with a certificate for localhost, its key, and the certificate of its authority."""
    authority_key, key = (
        ec.generate_private_key(ec.SECP256R1()),
        ec.generate_private_key(ec.SECP256R1()),
    )
    authority = (
        _builder(AUTHORITY, authority_key, authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(SIGNS_CERTIFICATES, critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    signed = (
        _builder(SUBJECT, key, authority_key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    paths = folder / "certificate.pem", folder / "key.pem", folder / "authority.pem"
    paths[0].write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    paths[2].write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    return paths


def _builder(
    name: x509.Name, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    """With the extensions that strict clients require, such as Python 3.13."""
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(AUTHORITY)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()),
            critical=False,
        )
    )
