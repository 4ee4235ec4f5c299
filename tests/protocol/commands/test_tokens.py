"""The bytes of personal access tokens."""

import pytest

from borzoi.model.errors import InvalidCommand, InvalidFormat
from borzoi.model.limits import NEVER
from borzoi.protocol.buffers import Reader
from borzoi.protocol.catalog import decode_request
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.tokens import (
    CreatePersonalAccessToken,
    DeletePersonalAccessToken,
    LoginWithPersonalAccessToken,
    RawToken,
    TokenInfo,
    Tokens,
)
from borzoi.protocol.contract import encode_payload


@pytest.mark.parametrize(
    ("code", "wire", "request_value"),
    [
        (
            Code.CREATE_PERSONAL_ACCESS_TOKEN,
            "03746f6b ffffffffffffffff",
            CreatePersonalAccessToken("tok", NEVER),
        ),
        (Code.DELETE_PERSONAL_ACCESS_TOKEN, "03746f6b", DeletePersonalAccessToken("tok")),
        (Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN, "0141", LoginWithPersonalAccessToken("A")),
    ],
)
def test_requests_have_the_published_bytes(code, wire, request_value):
    assert encode_payload(request_value).hex() == wire.replace(" ", "")
    assert decode_request(code, bytes.fromhex(wire)) == request_value


@pytest.mark.parametrize(
    "code",
    [
        Code.CREATE_PERSONAL_ACCESS_TOKEN,
        Code.DELETE_PERSONAL_ACCESS_TOKEN,
        Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN,
    ],
)
def test_an_empty_name_or_token_is_a_fault_of_format(code):
    with pytest.raises(InvalidFormat):
        decode_request(code, bytes(9))
    with pytest.raises(InvalidCommand):
        decode_request(code, b"")


def test_tokens_follow_each_other_without_a_count():
    wire = bytes.fromhex("03746f6b 0000000000000000 0141 0700000000000000")
    tokens = Tokens((TokenInfo("tok", 0), TokenInfo("A", 7)))
    assert encode_payload(tokens) == wire
    assert Tokens.decode(Reader(wire)) == tokens


def test_a_token_is_shown_on_the_wire_and_nowhere_else():
    assert encode_payload(RawToken("AB")) == b"\x02AB"
    assert RawToken.decode(Reader(b"\x02AB")).token == "AB"
    assert "AB" not in repr(RawToken("AB"))
    assert "AB" not in repr(LoginWithPersonalAccessToken("AB"))
