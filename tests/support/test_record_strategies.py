"""The strategies draw what they promise."""

from collections.abc import Callable

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from tests.support.record_strategies import (
    Sent,
    header_values,
    messages,
    plain_values,
    sent_batches,
    stored,
    typed_values,
)

from borzoi.records.batch import SMALL, verify
from borzoi.records.message import Message
from borzoi.records.user_headers import HeaderKind, HeaderValue, PlainValue


@given(sent_batches())
def test_every_batch_is_accepted_and_stored(request: Sent) -> None:
    batch = stored(request, base_offset=5, timestamp=6)
    assert len(batch) == request.messages_count
    assert verify(batch) is None
    assert batch.offsets()[0] == 5


@pytest.mark.parametrize(
    "is_of_shape",
    [
        lambda request: request.messages_count < SMALL,
        lambda request: request.received().equal_size > 0,
        lambda request: request.messages_count >= SMALL and not request.received().equal_size,
    ],
    ids=["small", "one size", "any size"],
)
def test_batches_of_every_shape_are_drawn(is_of_shape: Callable[[Sent], bool]) -> None:
    find(sent_batches(), is_of_shape, settings=settings(phases=[Phase.generate], max_examples=1000))


@given(sent_batches())
def test_the_same_request_is_stored_as_the_same_bytes(request: Sent) -> None:
    assert bytes(stored(request).messages) == bytes(stored(request).messages)


@pytest.mark.parametrize("kind", HeaderKind, ids=lambda kind: kind.name)
def test_values_of_every_kind_are_drawn(kind: HeaderKind) -> None:
    @given(plain_values(kind))
    def check(plain: PlainValue) -> None:
        assert HeaderValue.of(plain, kind).value == plain

    check()


@given(typed_values(), header_values, messages(), st.data())
def test_drawn_values_are_values(
    typed: tuple[HeaderKind, PlainValue], value: HeaderValue, message: Message, data: st.DataObject
) -> None:
    assert HeaderValue.of(typed[1], typed[0]).kind is typed[0]
    assert 1 <= len(value.data) <= 255
    assert len(data.draw(messages(payload_bytes_max=3)).payload) <= 3
    assert message.offset == message.timestamp == message.checksum == 0
