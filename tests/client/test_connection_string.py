"""Connection strings: what each means, and the errors of those that are invalid."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.client.connection_string import SCHEMES, TUNING, parse
from borzoi.client.options import Address, Options, Password, Reconnection, Tls, Token
from borzoi.model.errors import InvalidConnectionString
from borzoi.model.system import TransportKind


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("iggy://localhost", Options((Address("localhost", 8090),))),
        (
            "iggy://user:pass@host:1234",
            Options((Address("host", 1234),), credentials=Password("user", "pass")),
        ),
        ("borzoi://token@h:1", Options((Address("h", 1),), credentials=Token("token"))),
        (
            "borzoi+tcp://u%40x:p%3A%2F@[::1]:1,b,c:3",
            Options(
                (Address("::1", 1), Address("b", 8090), Address("c", 3)),
                credentials=Password("u@x", "p:/"),
            ),
        ),
        (
            "iggy://to/k+en==@h:1",
            Options((Address("h", 1),), credentials=Token("to/k+en==")),
        ),
        ("iggy+ws://h", Options((Address("h", 8092),), TransportKind.WEBSOCKET)),
        ("iggy+http://h", Options((Address("h", 3000),), TransportKind.HTTP)),
        ("borzoi+quic://h", Options((Address("h", 8080),), TransportKind.QUIC)),
        ("iggy://[::1]", Options((Address("::1", 8090),))),
        ("iggy://h/", Options((Address("h", 8090),))),
        (
            "iggy://h?tls=true&tls_domain=d&tls_ca_file=%2Fca.pem&tls_validate_certificate=false",
            Options((Address("h", 8090),), tls=Tls("d", "/ca.pem", validate_certificate=False)),
        ),
        ("iggy://h?tls=true&validate_certificate=true", Options((Address("h", 8090),), tls=Tls())),
        ("iggy://h?tls=false&tls_domain=d", Options((Address("h", 8090),))),
        (
            "iggy://h?reconnection_retries=3&reconnection_interval=250ms&heartbeat_interval=0",
            Options(
                (Address("h", 8090),),
                reconnection=Reconnection(retries=3, interval=0.25),
                heartbeat_interval=0.0,
            ),
        ),
        ("iggy://h?reconnection_max_retries=unlimited", Options((Address("h", 8090),))),
        (
            "iggy://h?timeout=1m&connect_timeout=1s",
            Options((Address("h", 8090),), timeout=60.0, connect_timeout=1.0),
        ),
    ],
)
def test_a_connection_string_says(text: str, options: Options) -> None:
    assert parse(text) == options


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("localhost:8090", "begins with one of"),
        ("kafka://h", "begins with one of"),
        ("iggy:/h", "begins with one of"),
        ("iggy://", "is not an address"),
        ("iggy://u:p@", "is not an address"),
        ("iggy://:p@h", "names a user and a password"),
        ("iggy://u:@h", "names a user and a password"),
        ("iggy://h:", "is not a port"),
        ("iggy://h:0", "is not a port"),
        ("iggy://h:65536", "is not a port"),
        ("iggy://h:" + "9" * 5000, "is not a port"),
        ("iggy://[::1]8090", "is not an address"),
        ("iggy://h,", "is not an address"),
        ("iggy://h/stream", "has no path"),
        ("iggy://h?tls", "no option 'tls'"),
        ("iggy://h?colour=red", "no option 'colour'; there are .*heartbeat_interval"),
        ("iggy://h?tls=yes", "tls is 'yes'; true or false is allowed"),
        ("iggy://h?timeout=soon", "timeout: cannot read 'soon'"),
        ("iggy://h?timeout=0", "timeout is 0.0 seconds"),
        ("iggy://h?connect_timeout=2 years", "connect_timeout is"),
        ("iggy://h?reconnection_retries=-1", "a number up to"),
        ("iggy://h?initial_mtu=65536", "a number up to 65535"),
    ],
)
def test_a_faulty_one_is_told_what_is_wrong(text: str, fault: str) -> None:
    with pytest.raises(InvalidConnectionString, match=fault) as caught:
        parse(text)
    assert caught.value.code == 8000


@pytest.mark.parametrize("option", TUNING)
def test_what_published_clients_can_be_tuned_by_is_accepted(option: str) -> None:
    values = ["true", "5s", "1000"]
    accepted = [value for value in values if _is_accepted(f"iggy://h?{option}={value}")]
    assert len(accepted) == 1


def _is_accepted(text: str) -> bool:
    try:
        return parse(text) == Options((Address("h", 8090),))
    except InvalidConnectionString:
        return False


def test_both_names_have_the_same_schemes() -> None:
    iggy = {name.removeprefix("iggy"): kind for name, kind in SCHEMES.items() if "iggy" in name}
    ours = {name.removeprefix("borzoi"): kind for name, kind in SCHEMES.items() if "bor" in name}
    assert iggy == ours


def test_a_secret_is_not_in_the_sentence_about_it() -> None:
    with pytest.raises(InvalidConnectionString) as caught:
        parse("igy://root:hunter2@localhost")
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(parse("iggy://root:hunter2@localhost"))
    assert "hunter2" not in repr(parse("iggy://hunter2@localhost"))


@given(st.text(string.printable, max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    for candidate in (text, f"iggy://{text}", f"iggy://u:p@h?{text}"):
        try:
            assert isinstance(parse(candidate), Options)
        except InvalidConnectionString:
            continue


@pytest.mark.parametrize("name", ["iggy", "borzoi"])
def test_tls_can_be_part_of_the_scheme(name: str) -> None:
    assert parse(f"{name}+wss://h") == parse(f"{name}+ws://h?tls=true")
    assert parse(f"{name}+https://h") == parse(f"{name}+http://h?tls=true")
    assert parse(f"{name}+https://h?tls_domain=d&tls_ca_file=c").tls == Tls("d", "c")
    with pytest.raises(InvalidConnectionString, match="means TLS"):
        parse(f"{name}+wss://h?tls=false")


def test_the_certificate_of_quic_is_judged_when_asked_for() -> None:
    assert parse("iggy+quic://h").tls is None
    assert parse("iggy+quic://h?validate_certificate=false").tls is None
    assert parse("iggy+quic://h?validate_certificate=true").tls == Tls()
    assert parse("iggy+quic://h?tls_ca_file=c").tls == Tls(ca_file="c")
    assert parse("iggy+quic://h?tls=false&tls_ca_file=c").tls is None
