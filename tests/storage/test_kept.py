from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.support.disk import SimulatedDisk
from tests.support.logs import numbered

from borzoi.storage.descriptors import Descriptors, OnDemandFile
from borzoi.storage.index import entries_of
from borzoi.storage.kept import FEW_BYTES, KEPT_BYTES, KEPT_MAX, KeptMessages, nothing_kept
from borzoi.storage.reading import Reading
from borzoi.storage.segments import Segments

DIRECTORY = Path("/d")


class Log:
    """Segments on a simulated disk, which counts what is read from it."""

    def __init__(self, *sizes: int) -> None:
        self.disk = SimulatedDisk()
        self.disk.make_directory(DIRECTORY)
        self.segments = Segments(DIRECTORY, self.disk, Descriptors(self.disk))
        self.segments.begin(0)
        self.messages: list[bytes] = []
        self.append(*sizes)

    def append(self, *sizes: int) -> None:
        tail = self.segments.tail
        for size in sizes:
            batch = numbered([bytes(size)], base_offset=tail.next_offset, timestamp=1)
            entries = entries_of(batch, relative_offset=tail.index.count, position=tail.size)
            self.file.write([batch.messages], tail.size)
            tail.extend(entries, batch.size, 1, 1)
            self.messages.append(bytes(batch.messages))

    @property
    def file(self) -> OnDemandFile:
        assert self.segments.tail.file is not None
        return self.segments.tail.file

    def read(self, offset: int, end: int, size_max: int | None = None) -> bytes:
        reading = Reading(offset)
        self.segments.read(reading, offset, end, size_max)
        content = reading.materialise()
        assert content == b"".join(self.messages[offset : offset + reading.count])
        assert reading.size == len(content)
        for part in reading.ranges:
            assert part.file.read(part.length, part.position) == b"".join(part.slices())
        return content

    def bytes_read_by(self, offset: int, end: int) -> int:
        """How many bytes a read takes from the file, when it is asked for all it found."""
        before = self.disk.bytes_read.get(".log", 0)
        reading = Reading(offset)
        self.segments.read(reading, offset, end, None)
        reading.materialise()
        return self.disk.bytes_read.get(".log", 0) - before


def test_a_reader_that_goes_on_reads_the_messages_behind_along() -> None:
    log = Log(*[100] * 200)
    assert log.bytes_read_by(0, 1) == 164
    assert log.bytes_read_by(1, 2) == KEPT_BYTES // 164 * 164
    assert [log.bytes_read_by(at, at + 1) for at in range(2, 50)] == [0] * 48
    assert log.bytes_read_by(0, 1) == 164, "it lies before them"


def test_readers_of_the_same_messages_share_them() -> None:
    log = Log(100)
    assert [log.bytes_read_by(0, 1) for _ in range(5)] == [164, 164, 0, 0, 0]


def test_a_reader_at_the_end_reads_each_message_once() -> None:
    log = Log(100)
    for at in range(5):
        assert log.bytes_read_by(at, at + 1) == 164
        assert log.file.kept is None
        log.append(100)


def test_large_reads_and_readers_in_many_places_keep_nothing() -> None:
    log = Log(*[FEW_BYTES] * 9)
    for at in (0, 0, 1, 2):
        log.read(at, at + 1)
    log = Log(*[10] * 100)
    for at in (5, 50, 5, 50):
        log.read(at, at + 1)
    assert log.file.kept is None


def test_a_bound_on_bytes_holds_for_messages_in_memory_too() -> None:
    log = Log(*[100] * 9)
    for _ in range(3):
        assert len(log.read(0, 3, size_max=200)) == 164
        assert len(log.read(0, 3, size_max=328)) == 328
        assert len(log.read(0, 3, size_max=0)) == 164


def test_they_go_with_the_descriptor_the_bytes_and_the_end_of_the_segment() -> None:
    def kept() -> OnDemandFile:
        file = Log(*[10] * 9).file
        file.kept = KeptMessages(0, 0, [74], bytes(74))
        return file

    for go in (
        lambda file: file.close(),
        lambda file: file.detach(),
        lambda file: file.truncate(74),
    ):
        file = kept()
        go(file)
        assert file.kept is None
    log = Log(*[10] * 9)
    log.read(0, 1), log.read(0, 1)
    file = log.file
    assert file.kept is not None
    log.segments.begin(9)
    assert file.kept is None


def test_they_go_when_others_need_the_descriptor() -> None:
    disk = SimulatedDisk()
    disk.make_directory(DIRECTORY)
    descriptors = Descriptors(disk, 1)
    first, second = (descriptors.created(DIRECTORY, name) for name in "ab")
    first.size()
    first.kept = KeptMessages(0, 0, [74], bytes(74))
    second.size()
    assert first.opened is None
    assert first.kept is None


# What consumers hold. -----------------------------------------------------------------------------


def test_few_messages_of_any_plain_segment_are_kept_with_those_behind_them() -> None:
    log = Log(*[100] * 10)
    log.segments.begin(10)
    log.append(*[100] * 10)
    for offset, end in ((0, 1), (3, 6), (15, 16), (12, 13)):
        kept = log.segments.kept(offset, end)
        assert kept is not None
        assert (kept.first_offset, kept.end_offset) == (offset, 10 if offset < 10 else 20)
        assert kept.content(offset, end) == b"".join(log.messages[offset:end])
    assert log.file.kept is kept
    assert log.segments.kept(19, 20) is kept, "those of the open segment are shared"
    assert log.segments.kept(9, 11) is None, "they lie in two files"
    assert log.segments.kept(19, 21) is None, "one is not written yet"
    assert log.segments.kept(5, 5) is None
    log.segments.delete_oldest(1, 20)
    assert log.segments.kept(3, 4) is None


def test_many_bytes_or_messages_are_not_kept() -> None:
    log = Log(*[FEW_BYTES] * 3)
    assert log.segments.kept(0, 1) is None
    log = Log(*[0] * 200)
    assert log.segments.kept(0, FEW_BYTES // 64) is not None
    assert log.segments.kept(100, 100 + FEW_BYTES // 64 + 1) is None


def test_those_in_use_stay_and_the_others_make_room() -> None:
    log = Log(*[FEW_BYTES - 64] * (KEPT_MAX + 3))
    held = [log.segments.kept(at, at + 1) for at in reversed(range(KEPT_MAX))]
    every = [kept for kept in held if kept is not None]
    assert len(every) == KEPT_MAX
    for kept in every[:2]:
        kept.content(kept.first_offset, kept.first_offset + 1)
    last = KEPT_MAX + 2
    assert log.segments.kept(last, last + 1) is None, "the first one is in use"
    assert log.segments.kept(last, last + 1) is None, "so is the second"
    assert log.segments.kept(last, last + 1) is not None
    assert [kept.end_offset > kept.first_offset for kept in every[:4]] == [True, True, False, True]
    # A read that would be kept is answered from the file.
    for kept in every[3:6]:
        kept.content(kept.first_offset, kept.first_offset + 1)
    assert [len(log.read(9, 10)) for _ in range(3)] == [FEW_BYTES] * 3
    assert log.file.kept is not None
    assert log.file.kept.first_offset == last


def test_what_was_forgotten_is_no_longer_found() -> None:
    log = Log(*[100] * 9)
    kept = log.segments.kept(0, 1)
    assert kept is log.file.kept
    assert kept is not None
    kept.forget()
    assert log.bytes_read_by(0, 1) == 164
    assert log.segments.kept(0, 1) is not kept


def test_nothing_is_kept_of_an_edition() -> None:
    kept = nothing_kept(7)
    assert (kept.edition, kept.first_offset, kept.end_offset) == (7, 0, 0)


@given(
    sizes=st.lists(st.integers(0, 3000), min_size=1, max_size=40),
    steps=st.lists(
        st.tuples(st.integers(0, 60), st.integers(1, 5), st.sampled_from([None, 0, 300, 9000])),
        max_size=30,
    ),
)
def test_what_is_read_is_what_was_written(
    sizes: list[int], steps: list[tuple[int, int, int | None]]
) -> None:
    log = Log(*sizes)
    for at, count, size_max in steps:
        end = len(log.messages)
        if at >= end:
            log.append(at)
            continue
        # Three in a row: the second or the third comes from memory, if it is small.
        for offset in (at, at, min(at + count, end)):
            log.read(offset, min(offset + count, end), size_max)
