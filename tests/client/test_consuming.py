"""The progress of a consumer, step by step."""

import pytest

from borzoi.client.consuming import ConsumerProgress, Place, checked_commit
from borzoi.client.messages import Message
from borzoi.model.errors import InvalidFormat


def message(partition: int, offset: int) -> Message:
    return Message(partition, 0, bytes(16), offset, 0, 0, b"", b"")


def reading(*partitions: int) -> ConsumerProgress:
    progress = ConsumerProgress()
    for partition in partitions:
        progress.own(partition, 0, None)
    return progress


def test_a_message_is_done_when_the_next_one_is_asked_for() -> None:
    progress = reading(0)
    progress.take(0, [message(0, 5), message(0, 6)])
    place = progress.places[0]
    assert place.position == 7
    assert progress.give() == message(0, 5)
    assert (place.given, place.done) == (5, None)
    assert progress.give() == message(0, 6)
    assert (place.given, place.done) == (6, 5)
    assert list(progress.to_store()) == [place]
    assert progress.give() is None
    assert place.done == 6


def test_partitions_take_turns_and_paused_ones_are_left_out() -> None:
    progress = reading(0, 3, 7)
    assert [turn(progress) for _ in range(4)] == [0, 3, 7, 0]
    progress.places[3].is_paused = True
    assert [turn(progress) for _ in range(3)] == [7, 0, 7]
    for place in progress.places.values():
        place.is_paused = True
    assert progress.next_place() is None
    assert progress.are_all_at_end()


def turn(progress: ConsumerProgress) -> int | None:
    place = progress.next_place()
    return None if place is None else place.partition


def test_what_was_not_given_is_polled_again() -> None:
    progress = reading(0, 1)
    progress.take(0, [message(0, 0), message(0, 1)])
    progress.give()
    progress.drop_polled(1)
    assert progress.polled
    progress.drop_polled(0)
    assert progress.places[0].position == 1
    assert progress.give() is None


def test_partitions_that_are_lost_are_forgotten() -> None:
    progress = reading(0, 1)
    progress.take(0, [message(0, 0), message(0, 1)])
    progress.give()
    progress.disown([0, 9])
    assert progress.owned() == (1,)
    assert progress.give() is None
    assert list(progress.to_store()) == []


def test_seeking_forgets_what_was_polled() -> None:
    progress = reading(0)
    progress.take(0, [])
    assert progress.are_all_at_end()
    progress.seek(0, 4)
    assert progress.places[0] == Place(0, 4)
    progress.take(0, [message(0, 4)])
    progress.seek(0, 0)
    assert progress.give() is None
    with pytest.raises(InvalidFormat):
        progress.seek(1, 0)


def test_a_way_to_commit_is_one_of_four() -> None:
    checked_commit("each")
    with pytest.raises(InvalidFormat, match="each, batch, interval, manual are allowed"):
        checked_commit("sometimes")
