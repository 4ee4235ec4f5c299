"""Polls that go on where another one ended."""

from pathlib import Path

import pytest
from tests.support.logs import batch_of

from borzoi.model.consuming import ConsumerKind, PollingStrategy
from borzoi.model.errors import InvalidFormat
from borzoi.model.namespace import Namespace
from borzoi.partitions.operations import Poll
from borzoi.partitions.partition import Partition
from borzoi.partitions.polling import Polled
from borzoi.shard.crossing import Further
from borzoi.shard.reading_ahead import FRESH_SECONDS, PLACES_MAX, ReadingAhead, readings_behind
from borzoi.storage.compressed import CompressedBody
from borzoi.storage.local import LocalMedium
from borzoi.storage.log import open_log
from borzoi.storage.media import ReadOnlyFile
from borzoi.storage.offsets import OffsetWriter, open_offsets
from borzoi.storage.reading import FileRange, Reading

PLACE = Namespace(1, 2, 3)


class Files:
    """A peer that has announced file 1."""

    def __init__(self, path: Path) -> None:
        self.file = LocalMedium().open(path, create=True)

    def get(self, number: int) -> ReadOnlyFile:
        if number != 1:
            raise InvalidFormat(f"file {number} was not announced")
        return self.file

    def twin(self, number: int) -> CompressedBody:
        raise AssertionError("nothing is compressed")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def files(tmp_path: Path):
    made = Files(tmp_path / "0.log")
    yield made
    made.file.close()


def poll(offset: int, count: int = 10, **options: object) -> Poll:
    return Poll(PollingStrategy.offset(offset), count, ConsumerKind.CONSUMER, 1, **options)  # type: ignore[arg-type]


def answer(offset: int, count: int = 10, current: int = 1000) -> Polled:
    return Polled(Reading(offset, count), current)


def said(start: int, count: int = 10, number: int = 1) -> Further:
    return Further(count, [(number, start * 100, count * 100)])


def test_a_poll_that_goes_on_is_answered_by_what_was_said(files):
    ahead = ReadingAhead(Clock())
    assert ahead.found(PLACE, poll(0), files) is None
    ahead.keep(PLACE, poll(0), answer(0), [said(10), said(20)])
    for start in (10, 20):
        known = ahead.found(PLACE, poll(start), files)
        assert known is not None
        assert known.more is None
        found = known.polled
        assert (found.reading.first_offset, found.reading.count) == (start, 10)
        assert found.reading.ranges == [FileRange(files.file, start * 100, 1000)]
        assert found.current_offset == 1000
    assert ahead.found(PLACE, poll(30), files) is None
    # Another consumer, or the same one again.
    assert ahead.found(PLACE, poll(10), files) is not None


@pytest.mark.parametrize(
    "other",
    [
        poll(11),
        poll(10, 11),
        poll(10, size_max=1),
        poll(10, auto_commit=True),
        Poll(PollingStrategy.offset(10), 10, ConsumerKind.GROUP, 1),
        Poll(PollingStrategy.next(), 10, ConsumerKind.CONSUMER, 1),
        Poll(PollingStrategy.first(), 10, ConsumerKind.CONSUMER, 1),
    ],
)
def test_any_other_poll_goes_to_the_owner(files, other):
    ahead = ReadingAhead(Clock())
    ahead.keep(PLACE, poll(0), answer(0), [said(10)])
    assert ahead.found(PLACE, other, files) is None
    assert ahead.found(Namespace(1, 2, 4), poll(10), files) is None
    assert ahead.found(PLACE, poll(10), files) is not None


def test_what_was_said_holds_for_a_moment(files):
    clock = Clock()
    ahead = ReadingAhead(clock)
    ahead.keep(PLACE, poll(0), answer(0), [said(10)])
    clock.now += FRESH_SECONDS * 1.01
    assert ahead.found(PLACE, poll(10), files) is None
    clock.now -= FRESH_SECONDS
    assert ahead.found(PLACE, poll(10), files) is None, "it is forgotten"


def test_a_file_that_is_gone_is_not_read(files):
    ahead = ReadingAhead(Clock())
    ahead.keep(PLACE, poll(0), answer(0), [said(10, number=2)])
    assert ahead.found(PLACE, poll(10), files) is None


def test_the_longer_a_client_goes_on_the_more_is_welcome(files):
    ahead = ReadingAhead(Clock())
    wanted = []
    for start in range(0, 60, 10):
        wanted.append(ahead.welcome(PLACE, poll(start)))
        ahead.keep(PLACE, poll(start), answer(start), [])
    assert wanted == [0, 2, 4, 8, 16, 16]
    assert ahead.welcome(PLACE, poll(5)) == 0
    assert ahead.welcome(PLACE, poll(60, auto_commit=True)) == 0
    # Nothing was there, so no poll continues from it.
    ahead.keep(PLACE, poll(900), answer(900, 0), [])
    assert ahead.welcome(PLACE, poll(900)) == 0


def test_more_is_asked_for_when_half_of_it_is_read(files):
    ahead = ReadingAhead(Clock())
    ahead.keep(PLACE, poll(0), answer(0), [said(start) for start in range(10, 170, 10)])
    asked = {}
    for start in range(10, 170, 10):
        known = ahead.found(PLACE, poll(start), files)
        assert known is not None
        if known.more is not None:
            asked[start] = known.more
    assert asked == {90: poll(160)}
    again = ahead.found(PLACE, poll(90), files)
    assert again is not None
    assert again.more is None, "once"
    # As many as after any other poll of the client.
    assert ahead.welcome(PLACE, asked[90]) == 16
    ahead.keep(PLACE, asked[90], answer(160), [said(170)])
    assert ahead.found(PLACE, poll(170), files) is not None


def test_a_slow_client_gets_less_ahead(files):
    clock = Clock()
    ahead = ReadingAhead(clock)
    for start in range(0, 40, 10):
        ahead.keep(PLACE, poll(start), answer(start), [said(start + 10)])
    assert ahead.welcome(PLACE, poll(40)) == 16
    clock.now += FRESH_SECONDS * 1.01
    assert ahead.found(PLACE, poll(40), files) is None
    assert ahead.welcome(PLACE, poll(40)) == 2


def test_everything_is_forgotten_when_partitions_change(files):
    ahead = ReadingAhead(Clock())
    ahead.keep(PLACE, poll(0), answer(0), [said(10)])
    before = ahead.generation
    ahead.forget()
    assert ahead.found(PLACE, poll(10), files) is None
    assert ahead.generation != before
    assert len(ahead) == 0


def test_the_places_are_bounded(files):
    ahead = ReadingAhead(Clock())
    for start in range(0, 3 * PLACES_MAX * 7, 7):
        ahead.keep(PLACE, poll(start, 1), answer(start, 1), [said(start + 1, 1)])
    assert len(ahead) == PLACES_MAX


@pytest.fixture
def partition(tmp_path: Path):
    medium = LocalMedium()
    log = open_log(tmp_path / "p", medium)
    offsets = open_offsets(tmp_path / "p", OffsetWriter(medium))
    made = Partition(PLACE, log, offsets, new_ids=lambda count: b"\1" * 16 * count)
    for number in range(10):
        made.append(batch_of([b"%d" % number] * 10), now=1)
    made.flush()
    yield made
    made.close()


def performed(partition: Partition, asked: Poll) -> Polled:
    polled = asked.perform(partition, 0)
    assert isinstance(polled, Polled)
    return polled


def places(reading: Reading) -> list[tuple[Path, int, int]]:
    return [(part.file.path, part.position, part.length) for part in reading.ranges]


def test_an_owner_says_what_the_next_polls_would_find(partition):
    first = poll(0)
    polled = performed(partition, first)
    behind = readings_behind(partition, first, polled, 3)
    assert [(one.first_offset, one.count) for one in behind] == [(10, 10), (20, 10), (30, 10)]
    for reading in behind:
        asked = performed(partition, poll(reading.first_offset))
        assert places(reading) == places(asked.reading)


def test_what_an_owner_says_ends_before_the_last_message(partition):
    """With everything known ahead, a client would miss that more has arrived."""
    first = poll(50)
    polled = performed(partition, first)
    assert polled.current_offset == 99
    behind = readings_behind(partition, first, polled, 8)
    assert [one.first_offset for one in behind] == [60, 70, 80]
    last = poll(90)
    assert readings_behind(partition, last, performed(partition, last), 8) == []
    nothing = poll(100)
    assert readings_behind(partition, nothing, performed(partition, nothing), 8) == []
    assert readings_behind(partition, first, polled, 0) == []


def test_messages_that_are_in_no_file_are_not_said_ahead(partition):
    first = poll(0)
    polled = performed(partition, first)
    in_memory = Polled(Reading(0, 10, [], [memoryview(b"x")]), 99)
    assert readings_behind(partition, first, in_memory, 8) == []
    assert readings_behind(partition, first, polled, 8) != []
