"""The state machines of the simulated replicas: those of production behind the core's interface.

The control plane is `borzoi.metadata`. What a cluster adds to it is kept beside it, as values: for
every partition the op that created it (X1), for every topic how often it was purged (X2). The data
plane is `consensus.data_plane` as it is.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from borzoi.consensus.checkpoint import Artifact, ArtifactKind
from borzoi.consensus.data_plane import DataPlane
from borzoi.consensus.machine import AdmittedRequest, OpResult, StampedBody
from borzoi.consensus.messages import Prepare
from borzoi.consensus.partition_log import NewIds
from borzoi.metadata import snapshot
from borzoi.metadata.effects import (
    CreatedPartitions,
    DeletedPartitions,
    DeletedStream,
    DeletedTopic,
    Effect,
    PurgedStream,
    PurgedTopic,
)
from borzoi.metadata.machine import Entry, apply
from borzoi.metadata.state import Metadata
from borzoi.model.errors import BorzoiError, StateCorrupted
from borzoi.model.namespace import Namespace, pack
from borzoi.protocol.errors import code_of
from borzoi.simulator.operations import (
    CODES,
    INVALID_COMMAND,
    OK,
    PartitionRow,
    control_answer,
    read_control,
)

SNAPSHOT: Final = ArtifactKind.SNAPSHOT.value


class ControlMachine:
    """Metadata as a replicated state machine; answers name the partitions a command was about."""

    def __init__(self) -> None:
        self.state = Metadata()
        self.incarnations: dict[int, int] = {}
        self.generations: dict[tuple[int, int], int] = {}
        self.restores = 0

    def stamp(self, proposal: AdmittedRequest, timestamp: int) -> StampedBody | int:
        if proposal.operation not in CODES:
            return INVALID_COMMAND
        try:
            read_control(proposal.operation, proposal.payload)
        except StateCorrupted:
            return INVALID_COMMAND
        return StampedBody(proposal.payload, 0)

    def forget_prepared(self) -> None:
        """Nothing is kept between stamping and applying."""

    def apply(self, header: Prepare, body: bytes) -> OpResult:
        command = read_control(header.operation, body)
        try:
            result = apply(self.state, Entry(header.timestamp, header.user_id, command))
        except BorzoiError as error:
            return OpResult(code_of(error), b"")
        rows = [row for effect in result.effects for row in self._carry_out(header.op, effect)]
        return OpResult(OK, control_answer(result.created_id, rows))

    def _carry_out(self, op: int, effect: Effect) -> list[PartitionRow]:
        match effect:
            case CreatedPartitions(stream, topic, numbers):
                self.generations.setdefault((stream, topic), 0)
                for number in numbers:
                    self.incarnations[pack(Namespace(stream, topic, number))] = op
                return self._rows(stream, topic, numbers)
            case DeletedPartitions(stream, topic, numbers):
                return self._drop(stream, topic, numbers, whole=False)
            case DeletedTopic(stream, topic, numbers):
                return self._drop(stream, topic, numbers, whole=True)
            case DeletedStream(stream, topics):
                return [row for one in topics for row in self._drop(stream, *one, whole=True)]
            case PurgedTopic(stream, topic, numbers):
                return self._purge(stream, topic, numbers)
            case PurgedStream(stream, topics):
                return [row for one in topics for row in self._purge(stream, *one)]
            case _:
                # Sessions and members: of no concern to the partitions.
                return []

    def _rows(self, stream: int, topic: int, numbers: tuple[int, ...]) -> list[PartitionRow]:
        generation = self.generations[stream, topic]
        packed = [pack(Namespace(stream, topic, number)) for number in numbers]
        return [PartitionRow(one, self.incarnations[one], generation) for one in packed]

    def _drop(
        self, stream: int, topic: int, numbers: tuple[int, ...], *, whole: bool
    ) -> list[PartitionRow]:
        rows = self._rows(stream, topic, numbers)
        for row in rows:
            del self.incarnations[row.namespace]
        if whole:
            del self.generations[stream, topic]
        return rows

    def _purge(self, stream: int, topic: int, numbers: tuple[int, ...]) -> list[PartitionRow]:
        self.generations[stream, topic] += 1
        return self._rows(stream, topic, numbers)

    def checkpoint(self, op: int) -> tuple[Artifact, ...]:
        content = msgspec.msgpack.encode(
            (
                snapshot.encode(self.state, members=True),
                sorted(self.incarnations.items()),
                sorted(self.generations.items()),
            )
        )
        return (Artifact(SNAPSHOT, op, content),)

    def restore(self, op: int, artifacts: tuple[Artifact, ...]) -> None:
        self.state, self.incarnations, self.generations = Metadata(), {}, {}
        self.restores += 1
        for artifact in artifacts:
            state, incarnations, generations = msgspec.msgpack.decode(artifact.content)
            self.state = snapshot.decode(state)
            self.incarnations = dict(incarnations)
            self.generations = {(place[0], place[1]): count for place, count in generations}


class DataMachine(DataPlane):
    """The production data plane; it also counts how often it was rebuilt from a checkpoint."""

    __slots__ = ("restores",)

    def __init__(
        self, *, control_commit: Callable[[], int], new_ids: NewIds, segment_bytes: int
    ) -> None:
        super().__init__(
            control_commit=control_commit, new_ids=new_ids, segment_bytes=segment_bytes
        )
        self.restores = 0

    def restore(self, op: int, artifacts: tuple[Artifact, ...]) -> None:
        self.restores += 1
        super().restore(op, artifacts)


Machine = ControlMachine | DataMachine
