from asyncio import Future
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest
from tests.support.disk import SimulatedDisk
from tests.support.logs import batch_of

from borzoi.model.consuming import ConsumerKind, PollingStrategy
from borzoi.model.errors import ConsumerOffsetNotFound
from borzoi.model.namespace import Namespace
from borzoi.partitions import operations
from borzoi.partitions.partition import Partition
from borzoi.storage.log import open_log
from borzoi.storage.offsets import OffsetWriter, open_offsets

CONSUMER = ConsumerKind.CONSUMER
A = TypeVar("A")


def empty_partition() -> Partition:
    disk, directory = SimulatedDisk(), Path("/d")
    return Partition(
        Namespace(1, 2, 3),
        open_log(directory, disk),
        open_offsets(directory, OffsetWriter(disk)),
        new_ids=lambda count: b"\1" * 16 * count,
    )


async def test_operations_do_what_they_say_one_after_another() -> None:
    partition = empty_partition()

    def ask(operation: operations.PartitionOperation[A]) -> A:
        answer = operation.perform(partition, 5)
        assert not isinstance(answer, Future)
        return answer

    ask(operations.Append(batch_of([b"a", b"b"])))
    polled = ask(operations.Poll(PollingStrategy.first(), 10, CONSUMER, 1, auto_commit=True))
    assert polled.reading.count == 2
    assert ask(operations.LoadOffset(CONSUMER, 1)) == operations.OffsetPair(1, 1)
    ask(operations.StoreOffset(CONSUMER, 1, 0))
    assert ask(operations.LoadOffset(CONSUMER, 1)) == operations.OffsetPair(0, 1)
    ask(operations.DeleteOffset(CONSUMER, 1))
    assert ask(operations.LoadOffset(CONSUMER, 1)) == operations.OffsetPair(None, 1)
    with pytest.raises(ConsumerOffsetNotFound):
        ask(operations.DeleteOffset(CONSUMER, 1))
    assert ask(operations.IsSettled(4))
    ask(operations.Poll(PollingStrategy.first(), 10, ConsumerKind.GROUP, 4))
    assert not ask(operations.IsSettled(4))
    flushed = operations.Flush(sync=True).perform(partition, 5)
    assert flushed is not None
    await flushed
    removed = operations.RemoveSegments(3).perform(partition, 5)
    assert await removed == (0, 0, 0)
    assert ask(operations.Describe()) == partition.statistics


async def test_a_wait_knows_what_arrived_on_its_way() -> None:
    partition = empty_partition()
    minute = 60_000_000
    operations.Append(batch_of([b"a", b"b", b"c"])).perform(partition, 5)
    assert operations.AwaitMessages(minute, known_offset=1).perform(partition, 5).done(), (
        "c has come since"
    )
    # 2 is the last one; 0 may be the first message or none at all.
    for known in (2, 0):
        waiting = operations.AwaitMessages(minute, known_offset=known).perform(partition, 5)
        assert not waiting.done()
        operations.Append(batch_of([b"d"])).perform(partition, 5)
        await waiting


def test_an_operation_is_a_value_of_plain_fields() -> None:
    """What crosses to another process holds no reference to this one; the bytes of a batch travel
    by their place in shared memory."""
    plain = {int, bool, int | None, ConsumerKind, PollingStrategy}
    for operation in operations.PartitionOperation.__subclasses__():
        assert operation.__struct_config__.frozen
        for field in msgspec.structs.fields(operation):
            assert field.type in plain or operation is operations.Append, (operation, field)


def test_equal_operations_are_equal() -> None:
    assert (
        operations.StoreOffset(CONSUMER, 1, 2)
        == operations.StoreOffset(CONSUMER, 1, 2)
        != operations.StoreOffset(CONSUMER, 1, 3)
    )
