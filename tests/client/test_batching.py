"""Batches: when they are due, in which order, and how much may wait."""

from collections.abc import Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.client.batching import Batching, Gathering
from borzoi.model.errors import InvalidFormat


def gathering(**options) -> Gathering[list]:
    return Gathering(Batching(**options), lambda partition: [partition])


def test_a_batch_is_due_when_it_is_old_enough() -> None:
    waiting = gathering(linger=1.0)
    batch = waiting.add("a", b"x", 1, now=10.0)
    assert waiting.add("a", b"y", 1, now=10.5) is batch
    assert waiting.due(10.9) == []
    assert waiting.next_due_at() == 11.0
    assert waiting.due(11.0) == [batch]
    assert waiting.due(99.0) == []
    assert waiting.next_due_at() is None
    assert waiting.add("a", b"z", 1, now=11.0) is not batch
    assert waiting.due(99.0) == []
    waiting.arrived(batch)
    assert [each.messages for each in waiting.due(99.0)] == [[b"z"]]


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({"batch_messages": 3}, [3, 3, 1]),
        ({"batch_bytes": 2 * 65}, [2, 2, 2, 1]),
        ({"batch_bytes": 2 * 65 + 1}, [2, 2, 2, 1]),
        ({"batch_bytes": 1}, [1] * 7),
    ],
)
def test_a_batch_is_due_when_it_is_full(options: dict, sizes: list[int]) -> None:
    waiting = gathering(linger=100, **options)
    for _ in range(7):
        waiting.add("a", b"x", 1, now=0.0)
    found = []
    while batches := waiting.due(0.0, everything=True):
        (batch,) = batches
        found.append(len(batch.messages))
        waiting.arrived(batch)
    assert found == sizes
    assert waiting.size == 0
    assert waiting.waiting() == []


def test_lanes_do_not_wait_for_each_other() -> None:
    waiting = gathering(linger=0)
    first, second = waiting.add(0, b"x", 1, now=0.0), waiting.add(1, b"x", 1, now=0.0)
    assert waiting.due(0.0) == [first, second]
    waiting.add(0, b"y", 1, now=0.0)
    third = waiting.add(1, b"y", 1, now=0.0)
    waiting.arrived(second)
    assert waiting.due(0.0) == [third]


def test_what_waits_is_bounded_but_one_message_always_fits() -> None:
    waiting = gathering(buffer_bytes=200)
    assert waiting.has_room(10**9)
    batch = waiting.add("a", b"x", 100, now=0.0)
    assert waiting.size == 164
    assert not waiting.has_room(0)
    waiting.due(0.0, everything=True)
    assert not waiting.has_room(0)
    waiting.arrived(batch)
    assert waiting.has_room(100)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 300)), max_size=60))
def test_every_message_leaves_once_and_in_the_order_of_its_lane(given_messages) -> None:
    waiting = gathering(linger=5, batch_messages=4, batch_bytes=500)
    left: dict[Hashable, list[object]] = {0: [], 1: [], 2: []}
    expected: dict[Hashable, list[object]] = {0: [], 1: [], 2: []}

    def send(*, everything: bool, now: float) -> None:
        for batch in waiting.due(now, everything=everything):
            left[batch.lane].extend(batch.messages)
            waiting.arrived(batch)

    for number, (lane, size) in enumerate(given_messages):
        message = f"{number}"
        waiting.add(lane, message, size, now=float(number))
        expected[lane].append(message)
        send(everything=False, now=float(number))
    while waiting.size:
        send(everything=True, now=0.0)
    assert left == expected


@pytest.mark.parametrize(
    "wrong", [{"linger": -1}, {"batch_messages": 0}, {"batch_bytes": 0}, {"buffer_bytes": 0}]
)
def test_impossible_bounds_are_refused(wrong: dict) -> None:
    with pytest.raises(InvalidFormat, match=f"{next(iter(wrong))} is"):
        Batching(**wrong)
