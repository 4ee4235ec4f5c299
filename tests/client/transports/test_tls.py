"""The context that judges a server's certificate."""

import ssl
from pathlib import Path

import pytest

from borzoi.client.options import Tls
from borzoi.client.transports.tls import context_of
from borzoi.model.errors import InvalidConnectionString


def test_certificates_are_judged_unless_told_otherwise() -> None:
    context = context_of(Tls())
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    lax = context_of(Tls(validate_certificate=False))
    assert lax.verify_mode is ssl.CERT_NONE


def test_a_file_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "garbage.pem").write_text("no certificate")
    for name in ("absent.pem", "garbage.pem"):
        with pytest.raises(InvalidConnectionString, match=f"tls_ca_file is .*{name}"):
            context_of(Tls(ca_file=str(tmp_path / name)))
