"""A batch in a buffer that comes back is handled as any other batch, only faster."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.record_strategies import Sent, sent

from borzoi.model.errors import BorzoiError
from borzoi.records.batch import Batch, receive, receive_at, stamp, verify
from borzoi.records.fresh_ids import FreshIds
from borzoi.records.layouts import (
    LAYOUT_MESSAGES_MAX,
    LAYOUTS_MAX,
    SEEN_ONCE_MAX,
    VIEWED_MESSAGES_MAX,
    Layout,
    Layouts,
    Views,
)
from borzoi.records.message import Message

# The accelerator keeps no layouts.
pytestmark = pytest.mark.usefixtures("in_python")

AT = 3  # an odd address, as in a request


def batch_of(size: int, count: int = 12, *, header_bytes: int = 0, id_: int = 0) -> Sent:
    return sent(
        [
            Message(bytes([number % 256]) * (size - header_bytes), id_, bytes(header_bytes))
            for number in range(count)
        ]
    )


class Buffer:
    """Memory that batch after batch is received into, always at the same place."""

    def __init__(self) -> None:
        self.memory = memoryview(bytearray(1 << 20))
        self.layouts = Layouts()

    def receive(self, request: Sent) -> Batch:
        end = AT + len(request.messages)
        self.memory[AT:end] = request.messages
        messages = self.memory[AT:end]
        place = (AT, len(messages), request.messages_count)
        return receive_at(self.layouts, place, messages, memoryview(request.indexes))


def stamped(batch: Batch, base_offset: int) -> bytes:
    ids = FreshIds(random.Random(1).randbytes)
    stamp(batch, base_offset=base_offset, timestamp=1_700_000_000_000_000, new_ids=ids)
    assert verify(batch) is None
    return batch.messages.tobytes()


@given(
    st.lists(
        st.builds(
            batch_of,
            st.sampled_from([20, 100, 700]),
            st.sampled_from([8, 12]),
            header_bytes=st.sampled_from([0, 0, 0, 5]),
            id_=st.sampled_from([0, 0, 7]),
        ),
        max_size=12,
    )
)
def test_what_lay_there_before_leaves_no_trace(requests: list[Sent]) -> None:
    buffer = Buffer()
    for number, request in enumerate(requests):
        alone = receive(
            memoryview(bytearray(request.messages)),
            memoryview(request.indexes),
            request.messages_count,
        )
        again = buffer.receive(request)
        assert len(again) == len(alone)
        assert stamped(again, number) == stamped(alone, number)
        assert again.ids().tolist() == alone.ids().tolist()
        assert again.offsets().tolist() == alone.offsets().tolist()


def test_views_are_made_when_a_batch_comes_again_and_serve_from_then_on() -> None:
    buffer = Buffer()
    request = batch_of(100)
    place = (AT, len(request.messages), 12)
    buffer.receive(request)
    assert buffer.layouts.views_at(place) is None
    buffer.receive(request)
    views = buffer.layouts.views_at(place)
    assert views is not None
    third = buffer.receive(request)
    assert third.layout is views.layout is buffer.layouts.of(164, 12)
    assert third.ends is views.layout.ends


@pytest.mark.parametrize(
    ("at", "value"),
    [(24, 1), (48, 1), (52, 1), (56, 1)],
    ids=["offset", "user headers length", "payload length", "reserved"],
)
def test_a_batch_that_is_not_like_the_first_gets_the_answer_it_gets_elsewhere(
    at: int, value: int
) -> None:
    buffer = Buffer()
    request = batch_of(100)
    for _ in range(3):
        buffer.receive(request)
    damaged = bytearray(request.messages)
    damaged[5 * 164 + at] ^= value
    other = request._replace(messages=bytes(damaged))

    def outcome(taken: Batch | type[BorzoiError]) -> object:
        return taken if isinstance(taken, type) else stamped(taken, 0)

    def refusal(work: object) -> Batch | type[BorzoiError]:
        try:
            result = work()  # type: ignore[operator]
        except BorzoiError as error:
            return type(error)
        assert isinstance(result, Batch)
        return result

    alone = refusal(
        lambda: receive(
            memoryview(bytearray(other.messages)), memoryview(other.indexes), other.messages_count
        )
    )
    assert outcome(refusal(lambda: buffer.receive(other))) == outcome(alone)


def test_a_wrong_index_is_noticed_where_a_right_one_lay_before() -> None:
    buffer = Buffer()
    request = batch_of(100)
    for _ in range(3):
        buffer.receive(request)
    indexes = bytearray(request.indexes)
    indexes[8] = 1
    with pytest.raises(BorzoiError):
        buffer.receive(request._replace(indexes=bytes(indexes)))


def views_of(count: int) -> Views:
    return Views(Layout(74, count), memoryview(bytearray(batch_of(10, count).messages)))


def test_layouts_are_kept_by_size_and_count_unless_they_are_large_or_too_many() -> None:
    layouts = Layouts()
    first = layouts.of(64, 8)
    assert layouts.of(64, 8) is first
    assert (first.ends.tolist(), bytes(first.indexes[4:8])) == (
        list(range(64, 513, 64)),
        b"@\0\0\0",
    )
    large = layouts.of(64, LAYOUT_MESSAGES_MAX + 1)
    assert layouts.of(64, LAYOUT_MESSAGES_MAX + 1) is not large
    for size in range(65, 65 + LAYOUTS_MAX):
        layouts.of(size, 8)
    assert layouts.of(64, 8) is not first


def test_the_oldest_views_go_when_there_are_too_many_messages() -> None:
    layouts = Layouts()
    views = views_of(LAYOUT_MESSAGES_MAX)
    places = [
        (number, 1, LAYOUT_MESSAGES_MAX)
        for number in range(VIEWED_MESSAGES_MAX // LAYOUT_MESSAGES_MAX + 1)
    ]
    for place in places:
        layouts.keep(place, views)
    assert layouts.views_at(places[0]) is None
    assert all(layouts.views_at(place) is views for place in places[1:])


def test_a_place_is_remembered_once_and_only_among_so_many() -> None:
    layouts = Layouts()
    first = (0, 1, 8)
    assert [layouts.comes_again(first) for _ in range(3)] == [False, True, False]
    for number in range(1, SEEN_ONCE_MAX + 1):
        assert not layouts.comes_again((number, 1, 8))
    assert not layouts.comes_again(first)
    too_large = (0, 1, LAYOUT_MESSAGES_MAX + 1)
    assert [layouts.comes_again(too_large) for _ in range(3)] == [False] * 3


def test_a_place_with_views_is_not_asked_for_another() -> None:
    layouts = Layouts()
    place = (0, 1, 8)
    layouts.keep(place, views_of(8))
    assert [layouts.comes_again(place) for _ in range(2)] == [False, False]
