"""The state machine of a data group: partitions, over the log as values (D3, X1, X2, K3).

A checkpoint is a table of the partitions (kind 1) and one artifact per segment (kind 3), in the
order of the table. ``generation`` is in the table because no segment says how often its partition
was purged.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import msgspec

from borzoi.consensus.checkpoint import Artifact, ArtifactKind
from borzoi.consensus.invariants import invariant, present
from borzoi.consensus.machine import AdmittedRequest, OpResult, StampedBody
from borzoi.consensus.messages import Operation, Prepare
from borzoi.consensus.partition_log import ConsumerKey, NewIds, PartitionLog, SegmentImage
from borzoi.consensus.partition_ops import (
    BatchDescriptor,
    PartitionCommand,
    decode_batch,
    decode_command,
    encode_batch,
    run_is_whole,
)
from borzoi.model.errors import BorzoiError
from borzoi.model.hashing import murmur3_32
from borzoi.records.batch import stamp, walk
from borzoi.records.checksum import checksum

SEGMENT_BYTES_DEFAULT: Final = 1024 * 1024 * 1024
# Statuses of the published protocol (protocol/errors.py): this layer only passes them on.
OK: Final = 0
INVALID_COMMAND: Final = 3
PARTITION_NOT_FOUND: Final = 3007
OFFSET_NOT_FOUND: Final = 3021
INVALID_OFFSET: Final = 4100

PartitionKey = tuple[int, int]
_SEND_MESSAGES: Final = Operation.SEND_MESSAGES.value
_PURGE_PARTITION: Final = Operation.PURGE_PARTITION.value
_SEGMENT_LOG: Final = ArtifactKind.SEGMENT_LOG.value
_DONE: Final = OpResult(OK, b"")
_GONE: Final = OpResult(PARTITION_NOT_FOUND, b"")
_INVALID: Final = OpResult(INVALID_COMMAND, b"")
# What a named tuple's own constructor ends with.
_new: Final = tuple.__new__


class DataPlane:
    """Partitions of one group, changed only by committed ops and the same on every replica."""

    __slots__ = (
        "_control_commit",
        "_forgotten",
        "_new_ids",
        "_prepared",
        "_segment_bytes",
        "partitions",
    )

    def __init__(
        self,
        *,
        control_commit: Callable[[], int],
        new_ids: NewIds,
        segment_bytes: int = SEGMENT_BYTES_DEFAULT,
    ) -> None:
        self.partitions: dict[PartitionKey, PartitionLog] = {}
        self._control_commit = control_commit
        self._new_ids = new_ids
        self._segment_bytes = segment_bytes
        # Highest incarnation deleted per namespace: numbers are reused, incarnations never (X1).
        self._forgotten: dict[int, int] = {}
        # Generation and end of each partition including ops in the pipeline (D3).
        self._prepared: dict[PartitionKey, tuple[int, int]] = {}

    # -- primary ----------------------------------------------------------------------------------

    def stamp(self, proposal: AdmittedRequest, timestamp: int) -> StampedBody | int:
        """Offsets, timestamps, ids and checksums, once, before the op exists (D3)."""
        if proposal.operation != _SEND_MESSAGES:
            command = decode_command(proposal.payload)
            if command is None:
                return INVALID_COMMAND
            if proposal.operation == _PURGE_PARTITION:
                key = (command.namespace, command.incarnation)
                if command.argument > self._end_of(key)[0]:
                    self._prepared[key] = (command.argument, 0)
            return _new(StampedBody, (proposal.payload, command.namespace))
        decoded = decode_batch(proposal.payload)
        if decoded is None:
            return INVALID_COMMAND
        descriptor, received = decoded
        run = bytearray(received)
        try:
            batch = walk(memoryview(run))
        except BorzoiError:
            return INVALID_COMMAND
        if len(batch) != descriptor.messages_count:
            return INVALID_COMMAND
        key = (descriptor.namespace, descriptor.incarnation)
        generation, base_offset = self._end_of(key)
        stamp(batch, base_offset=base_offset, timestamp=timestamp, new_ids=self._new_ids)
        self._prepared[key] = (generation, base_offset + descriptor.messages_count)
        stamped = BatchDescriptor(
            *key,
            base_offset,
            timestamp,
            descriptor.messages_count,
            len(run),
            checksum(run),
            descriptor.flags,
            generation,
        )
        return _new(StampedBody, (encode_batch(stamped, run), descriptor.namespace))

    def _end_of(self, key: PartitionKey) -> tuple[int, int]:
        """The generation and the offset that the next batch of a partition gets."""
        prepared = self._prepared.get(key)
        if prepared is not None:
            return prepared
        log = self.partitions.get(key)
        return (0, 0) if log is None else (log.generation, log.next_offset)

    def forget_prepared(self) -> None:
        self._prepared.clear()

    def next_offset(self, namespace: int, incarnation: int) -> int:
        log = self.partitions.get((namespace, incarnation))
        return log.next_offset if log is not None else 0

    # -- every replica ----------------------------------------------------------------------------

    def apply(self, header: Prepare, body: bytes) -> OpResult | None:
        if header.operation == _SEND_MESSAGES:
            return self._append(body)
        command = present(decode_command(body), "a committed command decodes")
        if self._must_wait(command.incarnation):
            return None
        return self._execute(header.operation, command)

    def _must_wait(self, incarnation: int) -> bool:
        """X1: the partition is newer than what this node's control plane has applied."""
        return incarnation > self._control_commit()

    def _log_of(self, namespace: int, incarnation: int) -> PartitionLog | None:
        """Created on first use (X5); none when deleted, which only a data-plane op can say."""
        if incarnation <= self._forgotten.get(namespace, -1):
            return None
        log = self.partitions.get((namespace, incarnation))
        if log is None:
            log = self.partitions[namespace, incarnation] = PartitionLog(self._segment_bytes)
        return log

    def _append(self, body: bytes) -> OpResult | None:
        descriptor, run = present(decode_batch(body), "a committed batch decodes")
        if self._must_wait(descriptor.incarnation):
            return None
        invariant(run_is_whole(descriptor, run), "a committed run is what the primary stamped")
        log = self._log_of(descriptor.namespace, descriptor.incarnation)
        if log is None:
            return _GONE
        log.append(descriptor, run)
        return _DONE

    def _execute(self, operation: int, command: PartitionCommand) -> OpResult:
        namespace, incarnation, argument, consumer, kind = command
        if operation == Operation.FORGET_PARTITION:
            self._forget(namespace, incarnation)
            return _DONE
        log = self._log_of(namespace, incarnation)
        if log is None:
            return _GONE
        key = _new(ConsumerKey, (kind, consumer))
        match operation:
            case Operation.STORE_CONSUMER_OFFSET:
                if argument >= log.next_offset:
                    return OpResult(INVALID_OFFSET, b"")
                log.offsets[key] = argument
            case Operation.DELETE_CONSUMER_OFFSET:
                if log.offsets.pop(key, None) is None:
                    return OpResult(OFFSET_NOT_FOUND, b"")
            case Operation.TRUNCATE_PARTITION:
                log.truncate(argument)
            case Operation.PURGE_PARTITION:
                log.purge(argument)
            case _:
                return _INVALID
        return _DONE

    def _forget(self, namespace: int, incarnation: int) -> None:
        """Delete this incarnation and those before it: the control plane deleted them in order."""
        newest = max(incarnation, self._forgotten.get(namespace, -1))
        self._forgotten[namespace] = newest
        for key in [k for k in self.partitions if k[0] == namespace and k[1] <= newest]:
            del self.partitions[key]
            self._prepared.pop(key, None)

    # -- checkpoints (K3) -------------------------------------------------------------------------

    def checkpoint(self, op: int) -> tuple[Artifact, ...]:
        table: list[Any] = []
        segments: list[Artifact] = []
        for namespace, incarnation in sorted(self.partitions):
            log = self.partitions[namespace, incarnation]
            sizes: list[tuple[int, int, int]] = []
            for segment in log.segments:
                end, content = segment.end_offset, b"".join((segment.log, segment.index))
                sizes.append((segment.base_offset, end, len(segment.log)))
                segments.append(_new(Artifact, (_SEGMENT_LOG, end, content)))
            offsets = sorted([(*key, at) for key, at in log.offsets.items()]) if log.offsets else []
            facts = (namespace, incarnation, log.first_offset, log.next_offset, log.generation)
            table.append((*facts, sizes, offsets))
        snapshot = msgspec.msgpack.encode((sorted(self._forgotten.items()), table))
        return (Artifact(ArtifactKind.SNAPSHOT.value, op, snapshot), *segments)

    def restore(self, op: int, artifacts: tuple[Artifact, ...]) -> None:
        self.partitions = {}
        self._forgotten = {}
        self._prepared.clear()
        if not artifacts:
            return
        forgotten, table = msgspec.msgpack.decode(artifacts[0].content)
        self._forgotten = dict(forgotten)
        contents = iter(artifacts[1:])
        for namespace, incarnation, first, end, generation, sizes, offsets in table:
            log = self.partitions[namespace, incarnation] = PartitionLog(self._segment_bytes)
            log.first_offset, log.next_offset, log.generation = first, end, generation
            for base, segment_end, log_bytes in sizes:
                segment = SegmentImage(base)
                segment.end_offset = segment_end
                content = next(contents).content
                segment.log += content[:log_bytes]
                segment.index += content[log_bytes:]
                log.segments.append(segment)
            log.offsets = {ConsumerKey(kind, consumer): at for kind, consumer, at in offsets}


@lru_cache(maxsize=65_536)
def group_of(packed_namespace: int, data_groups: int) -> int:
    """The data group of a partition (D1): never a function of a node's core count."""
    return 1 + (murmur3_32(packed_namespace.to_bytes(8, "little")) >> 16) % data_groups
