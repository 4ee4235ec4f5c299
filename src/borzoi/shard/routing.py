"""The data plane of one shard of several: operations run on the owner of each partition.

A partition of this shard is found by the same lookup as in a server with one process. Everything
else goes to another shard: a send as the position of its batch in shared memory; a poll is answered
with ranges of files.
"""

import asyncio
import logging
from asyncio import Future
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from borzoi.memory.arenas import Arenas
from borzoi.memory.pool import NOWHERE, Arena
from borzoi.metadata.effects import (
    CheckRevocations,
    CreatedPartitions,
    DeletedGroup,
    Effect,
    ForgetPolled,
    PurgedStream,
    PurgedTopic,
)
from borzoi.metadata.groups import VolatileCommand
from borzoi.metadata.state import Metadata
from borzoi.model.namespace import Namespace
from borzoi.partitions.futures import PromptFuture, arrived, following
from borzoi.partitions.operation_codec import decode_answer, encode_answer, is_repeatable
from borzoi.partitions.operations import Answer, Append, AwaitMessages, PartitionOperation, Poll
from borzoi.partitions.polling import Polled
from borzoi.partitions.statistics import EMPTY, PartitionStatistics
from borzoi.records.batch import Batch
from borzoi.security.encryption import Cipher
from borzoi.shard.answering import NOBODY, Answering
from borzoi.shard.bus import EMPTY as NOTHING
from borzoi.shard.bus import Arrived, Bus, Letter
from borzoi.shard.crossed_polls import CrossedPolls
from borzoi.shard.crossing import (
    APPEND,
    CODE_AT,
    decode_append,
    decode_request,
    encode_append,
    encode_request,
)
from borzoi.shard.envelopes import Subject
from borzoi.shard.ownership import Ownership
from borzoi.shard.partition_plane import DESCRIBE, PartitionPlane
from borzoi.shard.partition_store import PartitionStore, Place
from borzoi.shard.partition_table import PartitionTable, Totals
from borzoi.shard.reading_ahead import ReadingAhead
from borzoi.shard.upkeep import Upkeep, topics_of

log = logging.getLogger(__name__)

#: The shard that writes the metadata, and moves deleted directories to the trash.
WRITER: Final = 0

#: A batch of this size is sent to its owner without waiting for the end of the turn.
AT_ONCE_BYTES_MIN: Final = 64 * 1024

#: By a name of its own, because looking up a member of an enumeration takes a tenth of a µs.
OPERATION: Final = Subject.OPERATION

#: The reply to an append: the client has its answer.
CLIENT_ANSWERED: Final = Letter(b"\1")

_ENCODER: Final = msgspec.msgpack.Encoder()
_NAMESPACES: Final = msgspec.msgpack.Decoder(list[Namespace])
_STATISTICS: Final = msgspec.msgpack.Decoder(list[PartitionStatistics])
_TOTALS: Final = msgspec.msgpack.Decoder(Totals)


def _itself(polled: Polled) -> Polled:
    return polled


class RoutedPartitionPlane(PartitionPlane):
    """Runs operations here or on another shard, and answers those of the other shards."""

    def __init__(
        self,
        table: PartitionTable,
        upkeep: Upkeep,
        store: PartitionStore,
        *,
        bus: Bus,
        ownership: Ownership,
        arena: Arena | None,
        files_max: int,
        clients_max: int,
        cipher: Cipher | None = None,
    ) -> None:
        super().__init__(table, upkeep, store)
        self.ownership = ownership
        self._bus = bus
        #: The arena of this shard, which the others see.
        self._arena = arena
        self._arenas = Arenas(lambda peer: bus.links.peers[peer].arena)
        self._polls = CrossedPolls(bus, cipher, files_max)
        self.answering = Answering(bus, clients_max)
        upkeep.topic_size = self._topic_size
        bus.when_lost.append(self._forget_peer)

    def begin(self) -> None:
        """Answer the operations of other shards: the partitions of this one are open."""
        self._bus.answer(Subject.OPERATION, self._operate)
        self._bus.answer(Subject.DESCRIBE, self._describe_own)
        self._bus.answer(Subject.TOTALS, lambda _: Letter(_ENCODER.encode(self._table.totals())))
        self._bus.answer(Subject.OPENED, lambda _: Letter(_ENCODER.encode(self.opened())))

    # Operations of this shard's clients.

    def run(
        self, namespace: Namespace, operation: PartitionOperation[Answer], *, now: int
    ) -> "Answer | Future[Answer]":
        partition = self.owned.get(namespace)
        if partition is None:
            owner = self.ownership.owner_of(namespace)
            if owner != self.ownership.shard:
                return self._forward(owner, namespace, operation, now)
            partition = self._table.find(namespace)
        return operation.perform(partition, now)

    def _forward(
        self, owner: int, namespace: Namespace, operation: PartitionOperation[Answer], now: int
    ) -> "Answer | Future[Answer]":
        """Run an operation on another shard."""
        if isinstance(operation, Poll):
            return self.poll(owner, namespace, operation)
        if isinstance(operation, Append):
            batch = operation.batch
            arena = self._arena
            position = NOWHERE if arena is None else arena.position_of(batch.messages)
            return self.append(owner, namespace, batch, now, position)
        code, body = encode_request(namespace, operation, now)
        patient = isinstance(operation, AwaitMessages)
        asked: Future[Any] = self._bus.request(
            owner,
            Subject.OPERATION,
            Letter(body),
            repeatable=is_repeatable(operation),
            cancellable=patient,
            make=lambda found: decode_answer(code, found.body),
        )
        if patient:
            # If the shard has died nothing arrives; the poll that follows reports it.
            asked = _resolved_when_gone(asked)
        return asked

    def append(
        self,
        owner: int,
        namespace: Namespace,
        batch: Batch,
        now: int,
        position: int,
        client: int = NOBODY,
        answer: PromptFuture[Any] | None = None,
    ) -> PromptFuture[Any]:
        """Append a batch on another shard; `position` is where it lies in the arena. The owner may
        answer this `client`. The future is `answer`, if it is given."""
        body = encode_append(namespace, batch, now, position, client)
        # A large batch is worth a system call of its own. Small ones gain by going together.
        if batch.size >= AT_ONCE_BYTES_MIN:
            return self._bus.append(owner, body, answer)
        return self._bus.request(owner, OPERATION, Letter(body), make=None, answer=answer)

    def poll(
        self,
        owner: int,
        namespace: Namespace,
        poll: Poll,
        make: Callable[[Polled], Any] = _itself,
    ) -> PromptFuture[Any]:
        """Poll on another shard; return a future of the answer, passed through `make`."""
        return self._polls.ask(owner, namespace, poll, lambda polled, _: make(polled))

    def reading_ahead(self, owner: int, namespace: Namespace, poll: Poll) -> ReadingAhead:
        """The polls that follow this one, by offset and without a commit, on another shard."""
        return ReadingAhead(self._polls, owner, namespace, poll)

    # Operations of other shards.

    def _operate(self, asked: Arrived) -> "Letter | Future[Letter]":
        peer = asked.shard
        if asked.body[CODE_AT] == APPEND:
            append = decode_append(asked.body, peer, self._arenas.view)
            partition = self.owned.get(append.namespace)
            if partition is None:
                partition = self._table.find(append.namespace)
            waiter = partition.append(append.batch, append.now)
            if waiter is not None:
                return following(waiter, lambda _: NOTHING)
            if append.client and self.answering.answer(peer, append.client, append.mark):
                return CLIENT_ANSWERED
            return NOTHING
        request = decode_request(asked.body)
        operation = request.operation
        partition = self.owned.get(request.namespace)
        if partition is None:
            partition = self._table.find(request.namespace)
        answer = operation.perform(partition, request.now)
        if answer is None:
            return NOTHING

        def answered(found: Any) -> Letter:
            if isinstance(operation, Poll):
                return Letter(
                    self._polls.answer(peer, partition, operation, found, request.welcome)
                )
            return Letter(encode_answer(found))

        if not isinstance(answer, Future):
            return answered(answer)
        # Stop waiting for messages when the shard that asked has stopped.
        patient = isinstance(operation, AwaitMessages)
        return following(answer, answered, withdraw=patient)

    # Files passed between shards.

    def release_deleted(self) -> None:
        """Let the other shards close files that were deleted or replaced here."""
        self._polls.release_deleted()

    def _forget_peer(self, shard: int) -> None:
        self._arenas.forget(shard)
        self._polls.forget_peer(shard)
        self.answering.forget_peer(shard)

    @property
    def files_held(self) -> int:
        """Files of other shards that are open here."""
        return self._polls.files_held

    # Over all shards.

    def describe(
        self, namespaces: Iterable[Namespace]
    ) -> "list[PartitionStatistics] | Future[list[PartitionStatistics]]":
        wanted = list(namespaces)
        places: dict[int, list[int]] = {}
        for number, namespace in enumerate(wanted):
            places.setdefault(self.ownership.owner_of(namespace), []).append(number)
        own = places.pop(self.ownership.shard, [])
        found: dict[int, PartitionStatistics] = {
            number: self._described(wanted[number]) for number in own
        }
        if not places:
            return [found[number] for number in range(len(wanted))]
        return asyncio.ensure_future(self._describe_all(wanted, found, places))

    async def _describe_all(
        self,
        wanted: Sequence[Namespace],
        found: dict[int, PartitionStatistics],
        places: dict[int, list[int]],
    ) -> list[PartitionStatistics]:
        asked = {
            shard: self._bus.request(
                shard,
                Subject.DESCRIBE,
                Letter(_ENCODER.encode([wanted[number] for number in numbers])),
                repeatable=True,
                urgent=True,
            )
            for shard, numbers in places.items()
        }
        for shard, numbers in places.items():
            described = _STATISTICS.decode((await asked[shard]).body)
            found.update(zip(numbers, described, strict=True))
        return [found[number] for number in range(len(wanted))]

    def _described(self, namespace: Namespace) -> PartitionStatistics:
        partition = self.owned.get(namespace)
        return EMPTY if partition is None else DESCRIBE.perform(partition, 0)

    def _describe_own(self, asked: Arrived) -> Letter:
        wanted = _NAMESPACES.decode(asked.body)
        return Letter(_ENCODER.encode([self._described(namespace) for namespace in wanted]))

    def totals(self) -> "Totals | Future[Totals]":
        return asyncio.ensure_future(self._total())

    async def _total(self) -> Totals:
        own = self._table.totals()
        found = [own, *await self._ask_all(Subject.TOTALS, _TOTALS)]
        return Totals(
            sum(one.size_bytes for one in found),
            sum(one.messages_count for one in found),
            sum(one.segments_count for one in found),
        )

    async def opened_everywhere(self) -> list[Namespace]:
        """Return the open partitions of all shards; `ShardUnavailable` unless all answer."""
        others = await self._ask_all(Subject.OPENED, _NAMESPACES)
        return [*self.opened(), *(one for found in others for one in found)]

    async def _ask_all(self, subject: Subject, decoder: msgspec.msgpack.Decoder[Any]) -> list[Any]:
        bus = self._bus
        asked = [bus.request(shard, subject, repeatable=True, urgent=True) for shard in bus.others]
        return [decoder.decode((await one).body) for one in asked]

    async def _topic_size(self, namespaces: Sequence[Namespace]) -> int:
        described = await arrived(self.describe(namespaces))
        return sum(one.size for one in described)

    # Effects of metadata changes.

    async def carry_out(self, effect: Effect) -> Sequence[VolatileCommand]:
        """Only what concerns the partitions of this shard."""
        self._polls.forget_ahead()
        narrowed = narrow(effect, self.ownership)
        if narrowed is None:
            return ()
        commands = await super().carry_out(narrowed)
        self.release_deleted()
        return commands

    async def _drop(self, namespaces: Sequence[Namespace], place: Place) -> None:
        """Remove stored files on the metadata writer, after the other shards have closed them."""
        if self.ownership.shard == WRITER:
            await super()._drop(namespaces, place)
            return
        for namespace in namespaces:
            self._table.discard(namespace)

    async def follow(self, before: Metadata, after: Metadata) -> None:
        """Hold what the metadata has now, where entries in between were missed."""
        self._polls.forget_ahead()
        births = {(stream.id, topic.id): topic.birth for stream, topic in topics_of(before)}
        topics = {(stream.id, topic.id): topic for stream, topic in topics_of(after)}
        for namespace in self.opened():
            place = (namespace.stream_id, namespace.topic_id)
            topic = topics.get(place)
            if (
                topic is None
                or namespace.partition_id not in topic.partitions
                or births.get(place) != topic.birth
            ):
                self._table.discard(namespace)
        self._table.open_all(after, self.ownership.is_own)

    async def close(self) -> None:
        await super().close()
        self._arenas.close()
        self._polls.close()
        self.answering.close()


def narrow(effect: Effect, ownership: Ownership) -> Effect | None:
    """Return the part of an effect for one shard's partitions. Deletions concern every shard."""

    def own(topic_id: int, partition_ids: Sequence[int]) -> tuple[int, ...]:
        return tuple(
            number
            for number in partition_ids
            if ownership.is_own(Namespace(effect.stream_id, topic_id, number))  # type: ignore[union-attr]
        )

    match effect:
        case (
            CreatedPartitions()
            | PurgedTopic()
            | DeletedGroup()
            | ForgetPolled()
            | CheckRevocations()
        ):
            partition_ids = own(effect.topic_id, effect.partition_ids)
            is_writer = ownership.shard == WRITER
            if not partition_ids and not (is_writer and isinstance(effect, CreatedPartitions)):
                return None
            return msgspec.structs.replace(effect, partition_ids=partition_ids)
        case PurgedStream():
            topics = tuple((topic_id, own(topic_id, ids)) for topic_id, ids in effect.topics)
            return msgspec.structs.replace(effect, topics=topics)
        case _:
            return effect


def _resolved_when_gone(source: "Future[None]") -> "Future[None]":
    """Return the same future, but without a failure if the shard has died."""
    promised: Future[None] = source.get_loop().create_future()

    def resolve(done: "Future[None]") -> None:
        if not promised.done():
            promised.set_result(None)
        if not done.cancelled():
            done.exception()  # retrieved: the poll that follows fails in the same way

    source.add_done_callback(resolve)
    promised.add_done_callback(lambda done: source.cancel() if done.cancelled() else None)
    return promised
