"""Operations and answers as bytes, both ways."""

from typing import Any

import msgspec
import pytest
from tests.support.logs import batch_of

from borzoi.model.consuming import ConsumerKind, PollingStrategy
from borzoi.model.errors import InvalidFormat
from borzoi.partitions import operations
from borzoi.partitions.operation_codec import (
    CODES,
    decode_answer,
    decode_operation,
    encode_answer,
    encode_operation,
    is_repeatable,
)
from borzoi.partitions.statistics import PartitionStatistics
from borzoi.storage.segments import Removed

OPERATIONS: list[operations.PartitionOperation[Any]] = [
    operations.Poll(PollingStrategy.offset(2**63), 10, ConsumerKind.GROUP, 2**32 - 1, True, 4096),
    operations.Poll(PollingStrategy.timestamp(1_700_000_000_000_000), 1, ConsumerKind.CONSUMER, 0),
    operations.AwaitMessages(30_000_000, 17),
    operations.StoreOffset(ConsumerKind.CONSUMER, 1, 2**40),
    operations.LoadOffset(ConsumerKind.GROUP, 3),
    operations.DeleteOffset(ConsumerKind.CONSUMER, 4),
    operations.IsSettled(5),
    operations.Flush(sync=True),
    operations.RemoveSegments(6),
    operations.Describe(),
]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: type(one).__name__)
def test_an_operation_is_the_same_on_the_other_side(operation):
    assert decode_operation(*encode_operation(operation)) == operation


def test_every_operation_but_an_append_has_a_code():
    kinds = {
        kind
        for kind in vars(operations).values()
        if isinstance(kind, type)
        and issubclass(kind, operations.PartitionOperation)
        and kind is not operations.PartitionOperation
    }
    assert kinds - set(CODES) == {operations.Append}
    assert {type(one) for one in OPERATIONS} == set(CODES)
    codes = [code for code, _ in CODES.values()]
    assert len(set(codes)) == len(codes)
    assert 1 not in codes


@pytest.mark.parametrize(
    ("operation", "answer"),
    [
        (OPERATIONS[3], None),
        (OPERATIONS[4], operations.OffsetPair(None, 7)),
        (OPERATIONS[4], operations.OffsetPair(3, 7)),
        (OPERATIONS[6], True),
        (OPERATIONS[6], False),
        (OPERATIONS[8], Removed(1, 2, 3)),
        (OPERATIONS[9], PartitionStatistics(1, 2, 3, 4)),
    ],
)
def test_an_answer_is_the_same_on_this_side(operation, answer):
    code, _ = encode_operation(operation)
    assert decode_answer(code, encode_answer(answer)) == answer


def test_what_cannot_be_read_is_refused():
    with pytest.raises(InvalidFormat, match="no operation"):
        decode_operation(200, b"")
    with pytest.raises(InvalidFormat, match="cannot be read"):
        decode_operation(CODES[operations.Poll][0], b"\xc1")
    with pytest.raises(InvalidFormat, match="answer"):
        decode_answer(CODES[operations.LoadOffset][0], msgspec.msgpack.encode("odd"))


def test_only_what_does_no_more_the_second_time_may_be_repeated():
    repeatable = {type(one) for one in OPERATIONS if is_repeatable(one)}
    assert repeatable == {
        operations.Poll,
        operations.AwaitMessages,
        operations.StoreOffset,
        operations.LoadOffset,
        operations.IsSettled,
        operations.Flush,
        operations.Describe,
    }
    assert not is_repeatable(OPERATIONS[0]), "it commits"
    assert not is_repeatable(operations.Append(batch_of([b"x"])))
