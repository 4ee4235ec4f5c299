import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
from cryptography import x509
from tests.support.certificates import trusting

from borzoi.model.errors import InvalidConfiguration
from borzoi.security.certificates import self_signed, self_signed_context, server_context


def shaken_hands(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> ssl.SSLObject:
    """A TLS handshake through memory; raises what either side raises."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.wrap_bio(to_client, to_server, server_hostname=host)
    done: set[ssl.SSLObject] = set()
    while len(done) < 2:
        for side in (theirs, ours):
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                pass
    return theirs


@pytest.fixture
def files(tmp_path):
    pair = self_signed("broker.example")
    cert_file, key_file = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert_file.write_bytes(pair.certificate)
    key_file.write_bytes(pair.key)
    return cert_file, key_file


@pytest.mark.parametrize("host", ["broker.example", "localhost", "127.0.0.1", "::1"])
def test_a_client_that_trusts_the_certificate_reaches_the_server(files, host):
    client = ssl.create_default_context(cafile=str(files[0]))
    assert shaken_hands(server_context(*files), client, host).version() == "TLSv1.3"


def test_a_client_that_does_not_trust_it_refuses(files):
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken_hands(server_context(*files), ssl.create_default_context(), "localhost")


def test_a_client_that_asked_for_someone_else_refuses(files):
    client = ssl.create_default_context(cafile=str(files[0]))
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken_hands(server_context(*files), client, "other.example")


def test_a_certificate_made_up_for_this_machine_serves():
    assert shaken_hands(self_signed_context(), trusting(), "localhost").version() == "TLSv1.3"


def test_old_protocol_versions_are_not_spoken(files):
    assert server_context(*files).minimum_version is ssl.TLSVersion.TLSv1_2


def test_a_self_signed_certificate_names_host_and_machine_and_lasts_a_year():
    certificate = x509.load_pem_x509_certificate(self_signed("192.0.2.1").certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert names.get_values_for_type(x509.IPAddress) == [
        ip_address(text) for text in ("192.0.2.1", "127.0.0.1", "::1")
    ]
    now = datetime.now(UTC)
    assert certificate.not_valid_before_utc < now
    assert certificate.not_valid_after_utc - now > timedelta(days=364)


def test_missing_files_are_a_fault_of_the_configuration(tmp_path):
    with pytest.raises(InvalidConfiguration, match=r"nowhere\.pem"):
        server_context(tmp_path / "nowhere.pem", tmp_path / "key.pem")


def test_a_key_of_another_certificate_is_a_fault_of_the_configuration(files):
    files[1].write_bytes(self_signed().key)
    with pytest.raises(InvalidConfiguration):
        server_context(*files)


def test_the_key_never_reaches_a_representation():
    pair = self_signed()
    assert "PRIVATE KEY" in pair.key.decode()
    assert "PRIVATE" not in repr(pair)
