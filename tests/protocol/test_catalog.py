"""The catalog is complete, and every command goes both ways."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import wire_strategies

from borzoi.model.errors import BorzoiError, InvalidCommand
from borzoi.protocol.buffers import Reader
from borzoi.protocol.catalog import REQUESTS, decode_request, decode_response
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.messages import PollMessages, SendMessages
from borzoi.protocol.commands.streams import GetStream, GetStreams, Streams
from borzoi.protocol.commands.system import Ping, Snapshot
from borzoi.protocol.contract import Listing, encode_payload
from borzoi.protocol.errors import code_of

COMMANDS = sorted(REQUESTS.items())
VALUES: list[Any] = list(REQUESTS.values())
IDS = [request.__name__ for _, request in COMMANDS]


def snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper()


def read(code, payload):
    """The status and the request that a payload comes to; one of them is None."""
    try:
        return None, decode_request(code, payload)
    except BorzoiError as error:
        return code_of(error), None


def test_every_code_has_its_request_and_every_request_its_code():
    assert REQUESTS.keys() == set(map(int, Code))
    assert [Code(code).name for code, _ in COMMANDS] == [snake_case(name) for name in IDS]
    assert all(code == request.CODE for code, request in COMMANDS)


def test_requests_are_frozen_values():
    for request in VALUES:
        assert request.__struct_config__.frozen


def test_no_secret_is_shown():
    secrets = {"password", "current_password", "new_password", "token"}
    holders = {kind for kind in VALUES if secrets & set(kind.__struct_fields__)}
    assert {kind.__name__ for kind in holders} == {
        "ChangePassword",
        "CreateUser",
        "LoginUser",
        "LoginWithPersonalAccessToken",
    }
    for kind in holders:
        shown = repr(kind(*(f"<{name}>" for name in kind.__struct_fields__)))
        assert not [name for name in secrets if f"<{name}>" in shown]


def test_there_is_a_strategy_for_every_request_and_every_response():
    assert wire_strategies.REQUESTS.keys() == set(REQUESTS.values())
    answers = {request.RESPONSE for request in REQUESTS.values()} - {None}
    assert answers <= wire_strategies.RESPONSES.keys()


@pytest.mark.parametrize(("code", "request_class"), COMMANDS, ids=IDS)
def test_a_request_is_read_as_written(code, request_class):
    @given(wire_strategies.REQUESTS[request_class], st.booleans())
    def check(request, as_view):
        payload = encode_payload(request)
        reread = decode_request(code, memoryview(payload) if as_view else payload)
        assert type(reread) is request_class
        assert reread == request
        assert encode_payload(reread) == payload

    check()


RESPONSES = list(wire_strategies.RESPONSES)


@pytest.mark.parametrize("response_class", RESPONSES, ids=lambda each: each.__name__)
def test_a_response_is_read_as_written(response_class):
    @given(wire_strategies.RESPONSES[response_class])
    def check(response):
        payload = encode_payload(response, all_compressions=True)
        assert len(payload) != 1
        reread = response_class.decode(Reader(payload))
        assert reread == response
        assert encode_payload(reread, all_compressions=True) == payload

    check()


@pytest.mark.parametrize(("code", "request_class"), COMMANDS, ids=IDS)
def test_bytes_behind_the_last_field_are_ignored(code, request_class):
    @given(wire_strategies.REQUESTS[request_class], st.binary(min_size=1, max_size=9))
    def check(request, filler):
        reread: Any = decode_request(code, encode_payload(request) + filler)
        if request_class is SendMessages:
            # Its last field reaches to the end of the payload.
            assert reread.messages == bytes(request.messages) + filler
        else:
            assert reread == request

    check()


@pytest.mark.parametrize(("code", "request_class"), COMMANDS, ids=IDS)
def test_a_request_that_is_cut_off_is_never_taken_for_another(code, request_class):
    """Cutting may leave a whole shorter request, of a send or a login; else it is refused."""

    @given(wire_strategies.REQUESTS[request_class], st.data())
    def check(request, data):
        payload = encode_payload(request)
        size = data.draw(st.integers(0, max(len(payload) - 1, 0)))
        status, reread = read(code, payload[:size])
        if reread is None:
            assert status in {3, 4, 6}
        else:
            assert encode_payload(reread)[:size] == payload[:size]

    check()


@pytest.mark.parametrize("code", [0, 2, 13, 40, 45, 99, 606, 9999, 2**32 - 1])
def test_an_unknown_code_is_refused(code):
    with pytest.raises(InvalidCommand):
        decode_request(code, b"")


def test_an_empty_answer_is_an_empty_list_or_nothing():
    assert decode_response(GetStreams, b"") == Streams(())
    assert decode_response(GetStream, b"") is None
    assert decode_response(Ping, b"") is None
    answers = [request.RESPONSE for request in REQUESTS.values() if request.RESPONSE]
    assert sum(issubclass(answer, Listing) for answer in answers) == 6


def test_an_answer_is_read_by_the_request_it_belongs_to():
    polled: Any = decode_response(PollMessages, bytes(16))
    assert (polled.partition_id, polled.current_offset, polled.messages_count) == (0, 0, 0)
    assert decode_response(REQUESTS[Code.GET_SNAPSHOT], b"PK\x05\x06") == Snapshot(b"PK\x05\x06")
