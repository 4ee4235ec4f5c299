import msgspec

from borzoi.protocol.hiding import hiding


class Login(msgspec.Struct, frozen=True):
    username: str
    password: str
    attempts: int = 0
    __repr__ = hiding("password")


class Sealed(msgspec.Struct, frozen=True):
    key: bytes
    nonce: bytes
    __repr__ = hiding("key", "nonce")


def test_what_is_hidden_is_left_out_and_the_rest_is_shown():
    assert repr(Login("bob", "s3cret")) == "Login(username='bob', attempts=0)"
    assert repr(Sealed(b"k", b"n")) == "Sealed()"


def test_nothing_that_holds_the_value_shows_it_either():
    assert "s3cret" not in f"{[Login('bob', 's3cret')]} {Login('bob', 's3cret')}"


def test_what_is_hidden_still_counts():
    assert Login("bob", "a") != Login("bob", "b")
