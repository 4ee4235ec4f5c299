"""What the owner of a partition adds to its answers to another shard."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.logs import batch_of

from borzoi.model.consuming import ConsumerKind, PollingStrategy
from borzoi.model.limits import POLLED_BYTES_MAX
from borzoi.model.namespace import Namespace
from borzoi.partitions.operations import Poll
from borzoi.partitions.partition import Partition
from borzoi.partitions.polling import Polled
from borzoi.shard.crossed_polls import ends_ahead
from borzoi.storage.local import LocalMedium
from borzoi.storage.log import open_log
from borzoi.storage.offsets import OffsetWriter, open_offsets
from borzoi.storage.reading import FileRange, Reading
from borzoi.storage.settings import SegmentSettings

BATCHES = 12


@pytest.fixture
def partition(tmp_path: Path) -> Iterator[Partition]:
    """Ten messages in each batch, five batches in each segment."""
    medium = LocalMedium()
    settings = SegmentSettings(size=2560)
    log = open_log(tmp_path / "p", medium, segment=settings)
    offsets = open_offsets(tmp_path / "p", OffsetWriter(medium))
    place = Namespace(1, 2, 3)
    made = Partition(place, log, offsets, new_ids=lambda count: b"\1" * 16 * count)
    for number in range(BATCHES):
        made.append(batch_of([b"%02d" % number] * 10), now=1)
        made.flush()
    yield made
    made.close()


def poll(offset: int, count: int = 5, size_max: int = POLLED_BYTES_MAX) -> Poll:
    strategy = PollingStrategy.offset(offset)
    return Poll(strategy, count, ConsumerKind.CONSUMER, 1, size_max=size_max)


def performed(partition: Partition, asked: Poll) -> Polled:
    polled = asked.perform(partition, 0)
    assert isinstance(polled, Polled)
    return polled


def ahead(partition: Partition, asked: Poll, number: int = 8) -> list[FileRange]:
    """Where the next polls are, as the other shard understands it."""
    polled = performed(partition, asked)
    ends = ends_ahead(partition, asked, polled, number)
    (first,) = polled.reading.ranges
    starts = [first.position + first.length, *ends]
    return [
        FileRange(first.file, start, end - start) for start, end in zip(starts, ends, strict=False)
    ]


def test_an_owner_says_where_the_next_polls_are(partition):
    found = ahead(partition, poll(0), 3)
    assert len(found) == 3
    for number, part in enumerate(found):
        (read,) = performed(partition, poll(5 + 5 * number)).reading.ranges
        assert (read.file, read.position, read.length) == (part.file, part.position, part.length)


def test_what_an_owner_says_ends_with_the_file(partition):
    assert [one.start_offset for one in partition.log.segments()] == [0, 50, 100]
    assert len(ahead(partition, poll(0), 100)) == 9
    assert len(ahead(partition, poll(1), 100)) == 8, "the next one ends in another"
    assert len(ahead(partition, poll(45), 100)) == 0
    assert len(ahead(partition, poll(50), 100)) == 9


def test_what_an_owner_says_ends_before_the_last_message(partition):
    """With everything known ahead, a client would miss that more has arrived."""
    assert len(ahead(partition, poll(100), 100)) == 2
    assert len(ahead(partition, poll(101), 100)) == 2
    assert len(ahead(partition, poll(110), 100)) == 0
    for offset in (115, 118, 120, 130):
        asked = poll(offset)
        assert not ends_ahead(partition, asked, performed(partition, asked), 8)


def test_no_poll_is_sent_ahead_that_would_be_cut(partition):
    size = performed(partition, poll(0)).reading.size
    assert len(ahead(partition, poll(0, size_max=size))) == 8
    cut = poll(0, size_max=size - 1)
    assert not ends_ahead(partition, cut, performed(partition, cut), 8)
    for payload in (b"x", b"a longer one", b"y"):
        partition.append(batch_of([payload] * 5), now=1)
    partition.flush()
    first, second, _ = (performed(partition, poll(120 + 5 * n)).reading.size for n in range(3))
    assert len(ahead(partition, poll(120, size_max=second))) == 1
    assert len(ahead(partition, poll(120, size_max=second - 1))) == 0
    assert first < second


def test_messages_that_are_in_no_file_are_not_sent_ahead(partition):
    first = poll(0)
    whole = performed(partition, first).reading.ranges[0]
    for reading in (
        Reading(0, 5, [], [memoryview(b"x")]),
        Reading(0, 5, [whole], [memoryview(b"x")]),
        Reading(0, 5, [whole, whole]),
        Reading(0, 4, [whole], left_out=1),
        Reading(0, 0),
    ):
        assert not ends_ahead(partition, first, Polled(reading, 119), 8)
    nothing = poll(0, 0)
    assert not ends_ahead(partition, nothing, performed(partition, nothing), 8)
