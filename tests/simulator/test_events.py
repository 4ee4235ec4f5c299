"""The agenda runs in order of (tick, sequence)."""

import pytest

from borzoi.simulator import events
from borzoi.simulator.events import EventQueue, MessageStorm


def run_all(queue: EventQueue) -> None:
    while (tick := queue.next_tick()) is not None:
        queue.run_tick(tick)


def test_events_of_one_tick_run_in_the_order_they_were_added():
    queue = EventQueue()
    seen: list[str] = []
    for name in "cab":
        queue.at(5, seen.append, name)
    queue.at(3, seen.append, "first")
    run_all(queue)
    assert seen == ["first", "c", "a", "b"]
    assert queue.executed == 4


def test_an_action_may_add_to_its_own_tick():
    queue = EventQueue()
    seen: list[int] = []

    def again(left):
        seen.append(queue.now)
        if left:
            queue.after(0, again, left - 1)

    queue.at(2, again, 3)
    assert queue.run_tick(2) == 4
    assert seen == [2, 2, 2, 2]


def test_the_past_cannot_be_changed():
    queue = EventQueue()
    queue.run_tick(10)
    with pytest.raises(ValueError, match="has passed"):
        queue.at(9, print, None)


def test_no_tick_is_skipped():
    queue = EventQueue()
    queue.at(3, print, "")
    queue.at(4, print, "")
    with pytest.raises(ValueError, match="comes before"):
        queue.run_tick(4)


def test_a_tick_that_never_ends_is_a_storm(monkeypatch):
    monkeypatch.setattr(events, "EVENTS_PER_TICK_MAX", 100)
    queue = EventQueue()

    def answer(_):
        queue.after(0, answer, None)

    queue.at(1, answer, None)
    with pytest.raises(MessageStorm):
        queue.run_tick(1)


def test_an_empty_tick_only_moves_the_clock():
    queue = EventQueue()
    assert queue.run_tick(8) == 0
    assert queue.now == 8
    assert queue.next_tick() is None
