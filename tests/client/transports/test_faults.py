"""Sentences about connections that fail."""

import ssl

import pytest

from borzoi.client.options import Address, Options, Tls
from borzoi.client.transports.faults import anew, cannot_connect, late, lost, server_hostname

HERE = Address("localhost", 8090)


@pytest.mark.parametrize(
    ("fault", "advice"),
    [
        (ssl.SSLError("bad certificate"), "tls_ca_file"),
        (TimeoutError(), "firewalls"),
        (ConnectionRefusedError("refused"), "is the server running there"),
    ],
)
def test_a_failed_attempt_says_what_to_look_at(fault: Exception, advice: str) -> None:
    told = str(cannot_connect(HERE, fault))
    assert "localhost:8090" in told
    assert advice in told


def test_everyone_gets_an_exception_of_his_own() -> None:
    fault = lost(HERE, OSError("reset"))
    again = anew(fault)
    assert again is not fault
    assert (type(again), str(again)) == (type(fault), str(fault))
    assert str(lost(HERE)) == "the connection to localhost:8090 ended"
    assert "within 0.5 s" in str(late(HERE, 0.5))


def test_the_certificate_is_of_the_host_unless_told_otherwise() -> None:
    assert server_hostname(HERE, Options(tls=Tls())) == "localhost"
    assert server_hostname(HERE, Options(tls=Tls(domain="example.org"))) == "example.org"
