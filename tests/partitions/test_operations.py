from pathlib import Path
from typing import get_args

import pytest
from tests.support.disk import SimulatedDisk
from tests.support.logs import batch_of

from borzoi.model.consuming import ConsumerKind, PollingStrategy
from borzoi.model.errors import ConsumerOffsetNotFound
from borzoi.model.namespace import Namespace
from borzoi.partitions import operations
from borzoi.partitions.operations import (
    Append,
    DeleteOffset,
    DeleteSegments,
    Describe,
    Flush,
    LoadOffset,
    Operation,
    Poll,
    Purge,
    StoreOffset,
    run,
)
from borzoi.partitions.partition import Partition
from borzoi.partitions.polling import Polled
from borzoi.storage.log import open_log
from borzoi.storage.offsets import OffsetWriter, open_offsets

CONSUMER = ConsumerKind.CONSUMER


def test_operations_do_what_they_say_one_after_another() -> None:
    disk, directory = SimulatedDisk(), Path("/d")
    partition = Partition(
        Namespace(1, 2, 3),
        open_log(directory, disk),
        open_offsets(directory, OffsetWriter(disk)),
        new_ids=lambda count: b"\1" * 16 * count,
    )

    def ask(operation: Operation) -> operations.Answer:
        return run(partition, operation, now=5)

    assert ask(Append(batch_of([b"a", b"b"]))) is None
    polled = ask(Poll(PollingStrategy.first(), 10, CONSUMER, 1, auto_commit=True))
    assert isinstance(polled, Polled)
    assert polled.reading.count == 2
    assert ask(LoadOffset(CONSUMER, 1)) == 1
    assert ask(StoreOffset(CONSUMER, 1, 0)) is None
    assert ask(LoadOffset(CONSUMER, 1)) == 0
    assert ask(DeleteOffset(CONSUMER, 1)) is None
    with pytest.raises(ConsumerOffsetNotFound):
        ask(DeleteOffset(CONSUMER, 1))
    assert ask(Flush(sync=True)) is None
    assert ask(DeleteSegments(3)) == (0, 0, 0)
    assert ask(Describe()) == partition.statistics
    assert ask(Purge()) is None
    assert partition.statistics.messages_count == 0


def test_every_operation_is_one_of_them() -> None:
    classes = {
        value
        for value in vars(operations).values()
        if isinstance(value, type) and value.__module__ == operations.__name__
    }
    assert classes == set(get_args(Operation))
