"""The progress of a consumer, step by step."""

import pytest

from borzoi.client.consuming import ConsumerProgress, Consuming, Place
from borzoi.client.messages import Message
from borzoi.model.errors import InvalidFormat


def message(partition: int, offset: int) -> Message:
    return Message(0, bytes(16), offset, 0, 0, partition, b"", b"")


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
    Consuming(commit="each")
    with pytest.raises(InvalidFormat, match="each, batch, interval, manual are allowed"):
        Consuming(commit="sometimes")  # type: ignore[arg-type]


def caught_up(*, done: int | None, stored: int | None, found: int | None) -> Place:
    progress = ConsumerProgress()
    progress.own(0, 5, stored)
    progress.places[0].done = done
    progress.catch_up(0, found)
    return progress.places[0]


def test_others_may_have_read_on() -> None:
    assert caught_up(done=4, stored=2, found=9) == Place(0, 10, done=None, stored=9)
    assert caught_up(done=4, stored=2, found=3) == Place(0, 5, done=4, stored=3)


def test_what_we_stored_ourselves_moves_nothing() -> None:
    # Sought back to 5 after 9 was stored.
    assert caught_up(done=None, stored=9, found=9) == Place(0, 5, stored=9)
    assert caught_up(done=4, stored=2, found=4) == Place(0, 5, done=4, stored=4)
    assert caught_up(done=4, stored=2, found=None) == Place(0, 5, done=4, stored=None)


def test_a_message_that_others_have_dealt_with_does_not_count() -> None:
    for stored, is_done in ((0, True), (1, False), (2, False)):
        progress = ConsumerProgress()
        progress.own(0, 0, None)
        progress.take(0, [message(0, 0), message(0, 1), message(0, 2)])
        progress.give(), progress.give()
        progress.catch_up(0, stored)
        progress.finish_last()
        assert (progress.places[0].done == 1) is is_done
        assert progress.polled == []


def test_a_message_of_a_partition_that_is_gone_does_not_count() -> None:
    progress = ConsumerProgress()
    progress.own(0, 0, None)
    progress.take(0, [message(0, 0)])
    progress.give()
    progress.own(0, 0, None)
    progress.finish_last()
    assert progress.places[0].done is None
