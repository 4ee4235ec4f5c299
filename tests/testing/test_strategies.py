"""Whatever the strategies make can be sent, and comes back."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from borzoi.client.messages import Message, encoded_headers
from borzoi.client.naming import topic_of
from borzoi.client.sending import encode
from borzoi.model.identifiers import checked_name
from borzoi.testing import strategies


@given(strategies.names(), strategies.offsets())
def test_names_are_names(name: str, offset: int) -> None:
    assert checked_name(name) == name
    assert topic_of((name, name)) == (name, name)
    assert offset >= 0


@given(st.lists(strategies.messages(), min_size=1, max_size=5))
def test_messages_can_be_sent(messages: list[Any]) -> None:
    assert encode(messages, now=0).messages_count == len(messages)


@given(strategies.headers())
def test_headers_come_back(headers: dict[str, Any]) -> None:
    message = Message(0, bytes(16), 0, 0, 0, 0, b"", encoded_headers(headers))
    assert message.headers == headers
