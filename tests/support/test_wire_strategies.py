"""The strategies draw what they promise."""

from hypothesis import find, given, settings
from hypothesis import strategies as st
from tests.support import wire_strategies
from tests.support.wire_strategies import chunks, requests, responses

from borzoi.protocol.catalog import REQUESTS
from borzoi.protocol.commands.messages import SendMessages


def test_there_is_a_strategy_for_every_command():
    assert wire_strategies.REQUESTS.keys() == set(REQUESTS.values())
    assert len(wire_strategies.REQUESTS) == 47


@given(requests())
def test_a_drawn_request_is_one_of_the_catalog(request):
    assert REQUESTS[request.CODE] is type(request)


@given(responses())
def test_a_drawn_response_has_a_strategy_of_its_own(response):
    assert type(response) in wire_strategies.RESPONSES


@given(st.binary(max_size=100), st.data())
def test_chunks_are_the_stream(stream, data):
    assert b"".join(data.draw(chunks(stream))) == stream


def test_a_send_may_name_a_stream_that_is_not_utf8():
    def escaped(send):
        return isinstance(send.stream_id, str) and not send.stream_id.isprintable()

    assert find(wire_strategies.REQUESTS[SendMessages], escaped, settings=settings(database=None))
