import pytest

from borzoi.listeners.http.cors import VARY, Cors


def told(cors: Cors, origin: str | None = None) -> dict[bytes, bytes]:
    return dict(cors.on_every_answer(origin))


@pytest.mark.parametrize("origin", [None, "http://example.com"])
def test_everybody_may_ask_by_default(origin: str | None) -> None:
    assert told(Cors(), origin) == {b"vary": VARY, b"access-control-allow-origin": b"*"}
    assert Cors().on_preflight({}) == [
        (b"access-control-allow-methods", b"GET,POST,PUT,DELETE"),
        (b"access-control-allow-headers", b"content-type,authorization"),
    ]


def test_only_the_origins_that_are_listed_may() -> None:
    cors = Cors(origins=("http://one.example", "http://two.example"))
    assert told(cors, "http://two.example")[b"access-control-allow-origin"] == b"http://two.example"
    for other in (None, "http://three.example", "http://one.example.org"):
        assert b"access-control-allow-origin" not in told(cors, other)


@pytest.mark.parametrize(
    ("origins", "same"), [(("*",), True), (("http://one.example",), False), ((), False)]
)
def test_whether_the_headers_depend_on_the_origin(origins: tuple[str, ...], same: bool) -> None:
    assert Cors(origins=origins).is_same_for_all is same


def test_credentials_and_readable_headers_are_told_where_allowed() -> None:
    cors = Cors(credentials=True, exposed=("", "x-one", " ", "x-two"))
    headers = told(cors)
    assert headers[b"access-control-allow-credentials"] == b"true"
    assert headers[b"access-control-expose-headers"] == b"x-one,x-two"


def test_private_networks_are_told_when_they_are_asked_for() -> None:
    asked = {"access-control-request-private-network": "true"}
    allowed = (b"access-control-allow-private-network", b"true")
    assert allowed in Cors(private_network=True).on_preflight(asked)
    assert allowed not in Cors(private_network=True).on_preflight({})
    assert allowed not in Cors().on_preflight(asked)
