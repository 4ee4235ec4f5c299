"""What every `Log` must do. Each check gets a function that opens the log, again and again over the
same place, with segments of 512 bytes and acknowledgements that survive a killed process.

Run `CHECKS` against a new implementation: `tests/partitions/test_log.py` shows how.
"""

from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Final, TypeAlias

import pytest
from tests.support.logs import numbered, payloads_in

from borzoi.model.errors import StorageFailure
from borzoi.partitions.futures import arrived
from borzoi.partitions.log import Log
from borzoi.records.batch import walk

OpenLog: TypeAlias = Callable[[], Log]
Check: TypeAlias = Callable[[OpenLog], Awaitable[None]]

#: Bytes of a message with the payload that `append` gives it.
MESSAGE_BYTES: Final = 164


async def append(log: Log, count: int = 1, *, at: int | None = None) -> None:
    """One batch whose payloads say their offsets; it is acknowledged when this returns."""
    first = log.next_offset
    payloads = [b"%d" % (first + number) + bytes(100) for number in range(count)]
    payloads = [payload[:100] for payload in payloads]
    timestamp = first * 10 if at is None else at
    batch = numbered(payloads, base_offset=first, timestamp=timestamp)
    waiter = log.append(batch, timestamp=timestamp)
    if waiter is not None:
        await waiter


async def offsets(log: Log, offset: int, count: int, *, size_max: int | None = None) -> list[int]:
    """The offsets that the messages of a reading carry; their payloads must agree."""
    reading = await arrived(log.read(offset, count, size_max=size_max))
    content = reading.materialise()
    assert len(content) == reading.size
    found: list[int] = walk(memoryview(content)).offsets().tolist()
    assert len(found) == reading.count
    assert [int(payload.rstrip(b"\0")) for payload in payloads_in(content)] == found
    if found:
        assert reading.first_offset == found[0]
        assert reading.last_offset == found[-1]
    return found


async def filled(open_log: OpenLog, batches: int = 10) -> Log:
    """Two messages in each batch, at times 0, 20, 40, … in several segments."""
    log = open_log()
    for _ in range(batches):
        await append(log, 2)
    return log


async def an_empty_log_begins_at_zero(open_log: OpenLog) -> None:
    log = open_log()
    assert (log.first_offset, log.next_offset, log.visible_offset, log.generation) == (0, 0, 0, 0)
    assert (log.messages_count, log.size, log.segments_count) == (0, 0, 1)
    assert log.fenced is None
    assert await offsets(log, 0, 10) == []
    assert await arrived(log.offset_at(5)) == 0
    log.close()


async def messages_are_read_as_they_were_appended(open_log: OpenLog) -> None:
    log = await filled(open_log)
    assert (log.next_offset, log.visible_offset, log.messages_count) == (20, 20, 20)
    assert log.size == 20 * MESSAGE_BYTES
    assert await offsets(log, 0, 100) == [*range(20)]
    assert await offsets(log, 7, 5) == [*range(7, 12)]
    assert await offsets(log, 19, 5) == [19]
    assert await offsets(log, 20, 5) == []
    assert await offsets(log, 0, 0) == []
    log.close()


async def a_reading_is_bounded_by_its_bytes(open_log: OpenLog) -> None:
    log = await filled(open_log)
    for room in range(1, 6):
        bound = room * MESSAGE_BYTES
        assert await offsets(log, 3, 100, size_max=bound) == [*range(3, 3 + room)]
        assert await offsets(log, 3, 100, size_max=bound + MESSAGE_BYTES - 1) == [
            *range(3, 3 + room)
        ]
    assert await offsets(log, 3, 100, size_max=1) == [3], "the first one whatever its size"
    log.close()


async def messages_in_memory_are_those_of_the_log(open_log: OpenLog) -> None:
    """What a consumer holds is right until messages may have gone, and the edition says when."""
    log = await filled(open_log)
    other = log.edition
    for offset in range(20):
        expected = (await arrived(log.read(offset, 1))).materialise()
        kept = log.kept(offset, offset + 1)
        if kept is not None:
            assert kept.edition == log.edition
            assert bytes(kept.content(offset, offset + 1)) == expected
    editions = [log.edition]
    await append(log)
    assert log.edition == editions[0], "nothing has gone"
    for remove in (lambda: log.delete_segments(1), log.purge, log.close):
        remove()
        assert log.edition not in editions
        editions.append(log.edition)
    log = open_log()
    assert log.edition not in [other, *editions], "another log"
    editions.append(log.edition)
    log.abandon()
    assert log.edition not in editions


async def the_ends_of_messages_are_where_they_are_read(open_log: OpenLog) -> None:
    """For another process that reads on in the file by itself."""
    log = await filled(open_log)
    for offset in range(1, 20):
        before = (await arrived(log.read(offset - 1, 1))).ranges
        for step, end in ((1, 20), (1, offset), (2, 20), (3, 19), (100, 20)):
            ends = list(log.ends(offset, end, step))
            assert len(ends) <= max((end - offset) // step, 0)
            start = before[0].position + before[0].length if before else 0
            for number, stop in enumerate(ends):
                read = await arrived(log.read(offset + number * step, step))
                (part,) = read.ranges
                assert part.file is before[0].file
                assert (part.position, part.position + part.length) == (start, stop)
                start = stop
    log.close()


async def messages_are_found_by_time(open_log: OpenLog) -> None:
    log = await filled(open_log)
    for timestamp, offset in [(0, 0), (1, 2), (20, 2), (21, 4), (180, 18), (181, 20)]:
        assert await arrived(log.offset_at(timestamp)) == offset
    log.close()


async def a_batch_must_continue_the_log(open_log: OpenLog) -> None:
    """A wrong offset would be stored for good."""
    log = await filled(open_log, 1)
    for wrong in (0, 1, 3):
        with pytest.raises(AssertionError):
            log.append(numbered([b"x"], base_offset=wrong, timestamp=100), timestamp=100)
    assert log.next_offset == 2
    await append(log)
    assert await offsets(log, 0, 10) == [0, 1, 2]
    log.close()


async def the_oldest_segments_are_removed_and_offsets_stay(open_log: OpenLog) -> None:
    log = await filled(open_log)
    before = log.segments()
    assert len(before) == log.segments_count > 3
    assert [facts.sealed for facts in before] == [True] * (len(before) - 1) + [False]
    assert before[0].start_offset == 0
    assert all(a.end_offset + 1 == b.start_offset for a, b in pairwise(before))
    removed = log.delete_segments(2)
    assert removed.segments == 2
    assert removed.messages == before[2].start_offset == log.first_offset
    assert removed.size == removed.messages * MESSAGE_BYTES
    assert await offsets(log, 0, 100) == [*range(log.first_offset, 20)]
    assert await arrived(log.offset_at(0)) == log.first_offset
    assert log.delete_segments(100).segments == len(before) - 3, "the open segment stays"
    await append(log)
    assert log.next_offset == 21
    log.close()
    log = open_log()
    assert log.first_offset == before[-1].start_offset
    log.close()


async def everything_is_there_after_a_close(open_log: OpenLog) -> None:
    log = await filled(open_log)
    log.close()
    for call in (log.ensure_writable, lambda: log.flush(), lambda: log.delete_segments(1)):
        with pytest.raises(StorageFailure):
            call()
    log = open_log()
    assert log.last_timestamp == 180
    assert await offsets(log, 0, 100) == [*range(20)]
    assert await arrived(log.offset_at(100)) == 10
    await append(log)
    assert await offsets(log, 18, 9) == [18, 19, 20]
    log.close()


async def a_purged_log_begins_again_in_a_new_generation(open_log: OpenLog) -> None:
    log = await filled(open_log)
    log.purge()
    assert (log.first_offset, log.next_offset, log.visible_offset, log.size) == (0, 0, 0, 0)
    assert log.generation == 1
    await append(log)
    assert await offsets(log, 0, 10) == [0]
    log.purge()
    log.close()
    log = open_log()
    assert (log.generation, log.next_offset) == (2, 0), "a generation is never forgotten"
    log.close()


async def an_abandoned_log_answers_and_refuses(open_log: OpenLog) -> None:
    log = await filled(open_log, 2)
    log.abandon()
    with pytest.raises(StorageFailure):
        log.ensure_writable()
    with pytest.raises(StorageFailure):
        await arrived(log.read(0, 1))


async def a_flush_and_a_barrier_end(open_log: OpenLog) -> None:
    log = await filled(open_log, 3)
    for waiter in (log.flush(), log.flush(sync=True), log.barrier()):
        if waiter is not None:
            await waiter
    assert log.visible_offset == log.next_offset == 6
    log.close()


CHECKS: Final[tuple[Check, ...]] = (
    an_empty_log_begins_at_zero,
    messages_are_read_as_they_were_appended,
    a_reading_is_bounded_by_its_bytes,
    messages_in_memory_are_those_of_the_log,
    the_ends_of_messages_are_where_they_are_read,
    messages_are_found_by_time,
    a_batch_must_continue_the_log,
    the_oldest_segments_are_removed_and_offsets_stay,
    everything_is_there_after_a_close,
    a_purged_log_begins_again_in_a_new_generation,
    an_abandoned_log_answers_and_refuses,
    a_flush_and_a_barrier_end,
)
