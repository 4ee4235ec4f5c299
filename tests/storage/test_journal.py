from tests.support.logs import batch_of, numbered, payloads_in

from borzoi.records.batch import walk
from borzoi.storage.journal import Journal, Pending
from borzoi.storage.reading import Reading
from borzoi.storage.settings import PartitionSettings


def journal_of(*batches: list[bytes], first_offset: int = 10) -> Journal:
    journal = Journal()
    offset = first_offset
    for number, payloads in enumerate(batches):
        timestamp = 100 + number * 10
        batch = numbered(payloads, base_offset=offset, timestamp=timestamp)
        journal.push(Pending(batch, b"", offset, timestamp, timestamp))
        offset += len(batch)
    return journal


def read(journal: Journal, offset: int, end: int, size_max: int | None = None) -> list[bytes]:
    reading = Reading(offset)
    journal.read(reading, offset, end, size_max)
    found = payloads_in(reading.materialise())
    assert len(found) == reading.count
    return found


def test_messages_are_read_across_batches() -> None:
    journal = journal_of([b"a", b"b", b"c"], [b"d"], [b"e", b"f"])
    assert read(journal, 10, 16) == [b"a", b"b", b"c", b"d", b"e", b"f"]
    assert read(journal, 12, 15) == [b"c", b"d", b"e"]
    assert read(journal, 0, 11) == [b"a"]
    assert read(journal, 16, 20) == []


def test_a_bounded_read_stops_at_a_message() -> None:
    journal = journal_of([b"a", b"b", b"c"], [b"d"])
    assert read(journal, 10, 14, 65 * 2 + 64) == [b"a", b"b"]
    assert read(journal, 10, 14, 65 * 3) == [b"a", b"b", b"c"]
    assert read(journal, 11, 14, 0) == [b"b"]


def test_a_bounded_read_that_has_messages_already_need_not_take_one() -> None:
    journal = journal_of([b"a"])
    reading = Reading(9, 1, tail=[memoryview(bytes(65))])
    journal.read(reading, 10, 11, 100)
    assert reading.count == 1


def test_the_thresholds_count_the_batch_that_reaches_them() -> None:
    journal = journal_of([b"a", b"b", b"c"])
    by_count = PartitionSettings(messages_required_to_save=4)
    assert journal.must_be_saved_with(batch_of([b"d"]), by_count)
    assert not journal.must_be_saved_with(
        batch_of([b"d"]), PartitionSettings(messages_required_to_save=5)
    )
    by_size = PartitionSettings(size_of_messages_required_to_save=65 * 4)
    assert journal.must_be_saved_with(batch_of([b"d"]), by_size)
    assert not journal.must_be_saved_with(batch_of([b""]), by_size)


def test_a_time_is_found_in_the_journal() -> None:
    journal = journal_of([b"a", b"b"], [b"c"])
    assert journal.first_at_or_after(0) == 10
    assert journal.first_at_or_after(100) == 10
    assert journal.first_at_or_after(101) == 12
    assert journal.first_at_or_after(111) is None


def test_a_time_is_found_inside_a_batch_of_many_times() -> None:
    stored = b"".join(
        bytes(numbered([b"x"], base_offset=10 + number, timestamp=100 + number).messages)
        for number in range(10)
    )
    journal = Journal()
    journal.push(Pending(walk(memoryview(stored)), b"", 10, 100, 109))
    assert journal.first_at_or_after(105) == 15


def test_a_cleared_journal_is_empty() -> None:
    journal = journal_of([b"a"])
    journal.clear()
    assert (journal.count, journal.size, journal.pending) == (0, 0, [])
