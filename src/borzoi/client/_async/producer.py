"""Producers: messages one by one, sent at once or batched in the background."""

import os
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from math import inf
from typing import Final, Generic, Literal, Self, TypeVar

from borzoi.client._async.messaging import AsyncMessaging
from borzoi.client._colours import AsyncGate, AsyncOutcome, AsyncSignal, AsyncWorker, async_each
from borzoi.client.batching import Batching, Gathering, OutgoingBatch
from borzoi.client.codecs import Codec
from borzoi.client.messages import Headers, NewMessage, Payload, encoded_headers
from borzoi.client.naming import TopicName, partitioning_of, topic_of
from borzoi.client.sending import (
    Sendable,
    check_sizes,
    checked_id,
    encode,
    payload_of,
    send_parts,
)
from borzoi.model.errors import (
    BorzoiError,
    BufferFull,
    InvalidFormat,
    NoPartitions,
    ProducerClosed,
)
from borzoi.model.limits import PAYLOAD_BYTES_MAX, U32_MAX
from borzoi.model.partitioning import Partitioning, partition_for_key
from borzoi.records.fresh_ids import FreshIds

T = TypeVar("T")

#: What to do with a message when the buffer is full.
WhenFull = Literal["block", "fail", "drop"]

#: How long the partition count of a topic is cached.
PARTITIONS_SECONDS: Final = 30.0

BALANCED: Final = Partitioning.balanced()


class AsyncProducer(Generic[T]):
    """Sends messages to one topic.

    >>> async with client.producer("orders/events") as producer:  # doctest: +SKIP
    ...     await producer.send(b"hello", key="customer-7")

    Without `background`, `send` returns when the server has the message. With it, `send` returns
    at once, messages go out in batches, and the result of `send` can be awaited for the outcome.
    Either way a message gets its id before it is sent and is resent with the same id after a lost
    connection: stored exactly once if the server drops duplicates, at least once otherwise.
    Messages of one partition are stored in the order in which they were sent.
    """

    def __init__(
        self,
        client: AsyncMessaging,
        topic: TopicName,
        codec: Codec[T],
        *,
        background: bool,
        batching: Batching,
        when_full: WhenFull,
        timeout: float | None,
    ) -> None:
        if when_full not in ("block", "fail", "drop"):
            raise InvalidFormat(f"when_full is {when_full!r}; block, fail and drop are allowed")
        self._client = client
        self._topic = topic_of(topic)
        self._encode_value: Callable[[T], Payload] = codec.encode
        self._is_background = background
        self._when_full = when_full
        self._timeout = timeout
        self._patience = client._options.timeout if timeout is None else timeout
        self._new_ids = FreshIds(os.urandom)
        self._gathering: Gathering[AsyncOutcome] = Gathering(batching, AsyncOutcome)
        #: Guards the state that the worker shares with senders; never held across an await.
        self._guard = threading.Lock()
        self._work = AsyncSignal()
        self._room = AsyncGate()
        self._worker: AsyncWorker | None = None
        self._flushing = 0
        self._is_closed = False
        self._fault: BaseException | None = None
        self._partitions = 0
        self._partitions_at = -inf
        #: Messages discarded because the buffer was full (`when_full="drop"`).
        self.dropped = 0

    async def send(
        self,
        value: T,
        *,
        key: str | bytes | None = None,
        partition: int | None = None,
        headers: Headers | None = None,
        id: int = 0,  # noqa: A002 - the word of the protocol
    ) -> AsyncOutcome:
        """Send one message and return its outcome.

        `key` chooses the partition, the same one for the same key; `partition` names it. `id` is
        a 128-bit number by which the server recognises duplicates.
        """
        if self._is_closed:
            raise ProducerClosed("the producer is closed; create a new one")
        payload = self._encode_value(value)
        if type(payload) is not bytes:
            payload = bytes(payload_of(payload))  # a copy: the caller may modify its object
        size = len(payload)
        message: Sendable = payload
        # Reject an invalid message here, not when its batch is sent: the batch has others too.
        if headers or id or size > PAYLOAD_BYTES_MAX:
            check_sizes(size, len(encoded_headers(headers)))
            message = NewMessage(payload, headers, checked_id(id))
        if not self._is_background:
            await self._deliver([message], partitioning_of(partition, key))
            outcome = AsyncOutcome(partition)
            outcome.settle()
            return outcome
        lane = partition
        if key is not None:
            lane = await self._partition_of(partitioning_of(partition, key).value)
        elif partition is not None and not 0 <= partition <= U32_MAX:
            partitioning_of(partition, None)  # raises
        put = self._put(lane, message, size)
        if put is None:
            put = await self._put_when_there_is_room(lane, message, size)
        return put

    async def send_batch(
        self,
        values: Sequence[T],
        *,
        key: str | bytes | None = None,
        partition: int | None = None,
    ) -> None:
        """Send messages as one batch to one partition; return when the server has accepted them.

        Messages buffered earlier are sent first.
        """
        if self._is_closed:
            raise ProducerClosed("the producer is closed; create a new one")
        if self._is_background:
            await self.flush()
        payloads = [self._encode_value(value) for value in values]
        await self._deliver(payloads, partitioning_of(partition, key))

    async def flush(self) -> None:
        """Wait until the server has all messages sent so far; raises the first failure since
        the last flush."""
        with self._guard:
            outcomes = [batch.outcome for batch in self._gathering.waiting()]
            self._flushing += 1
        self._work.set()
        try:
            for outcome in outcomes:
                try:
                    await outcome.wait()
                except BorzoiError:
                    continue
        finally:
            with self._guard:
                self._flushing -= 1
        fault, self._fault = self._fault, None
        if fault is not None:
            raise fault

    async def close(self) -> None:
        """Flush and stop the worker; errors of the flush are raised after that."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self.flush()
        finally:
            self._work.set()
            worker, self._worker = self._worker, None
            if worker is not None:
                await worker.join()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # ---- in the background ----------------------------------------------------------------------

    def _put(self, lane: Hashable, message: Sendable, size: int) -> AsyncOutcome | None:
        """Put a message into a batch, if there is room for it."""
        with self._guard:
            if not self._gathering.has_room(size):
                return None
            batch = self._gathering.add(lane, message, size, time.monotonic())
            is_news = batch.is_closed or len(batch.messages) == 1
        if is_news:
            if self._worker is None:
                self._worker = AsyncWorker(self._run, "borzoi producer")
            self._work.set()
        return batch.outcome

    async def _put_when_there_is_room(
        self, lane: Hashable, message: Sendable, size: int
    ) -> AsyncOutcome:
        if self._when_full == "fail":
            raise BufferFull("the producer's buffer is full; wait, or make it larger")
        if self._when_full == "drop":
            self.dropped += 1
            outcome = AsyncOutcome(lane if isinstance(lane, int) else None)
            outcome.settle(BufferFull("the message was dropped: the buffer was full"))
            return outcome
        until = time.monotonic() + self._patience
        while True:
            turn = self._room.turn()
            settled = self._put(lane, message, size)
            if settled is not None:
                return settled
            if not await self._room.passed(turn, max(until - time.monotonic(), 0)):
                raise BufferFull(
                    f"the producer's buffer was full for {self._patience:g} s: the server"
                    " does not accept messages as fast as they are produced"
                )

    async def _run(self) -> None:
        """Send due batches until the producer is closed and the buffer is empty."""
        while True:
            with self._guard:
                now = time.monotonic()
                batches = self._gathering.due(now, everything=self._flushing > 0)
                until = self._gathering.next_due_at()
                is_over = self._is_closed and not self._gathering.size
            if batches:
                await async_each(self._send_batch, batches)
            elif is_over:
                return
            else:
                await self._work.wait(None if until is None else max(until - now, 0))

    async def _send_batch(self, batch: OutgoingBatch[AsyncOutcome]) -> None:
        fault: BaseException | None = None
        try:
            lane = batch.lane
            partitioning = Partitioning.partition(lane) if isinstance(lane, int) else BALANCED
            await self._deliver(batch.messages, partitioning)
        except BaseException as raised:
            fault = raised
            if self._fault is None:
                self._fault = raised
            if not isinstance(raised, BorzoiError):
                raise
        finally:
            with self._guard:
                self._gathering.arrived(batch)
            batch.outcome.settle(fault)
            self._room.open()

    async def _deliver(self, messages: Sequence[Sendable], partitioning: Partitioning) -> None:
        encoded = encode(messages, now=time.time_ns() // 1000, new_ids=self._ids)
        parts = send_parts(*self._topic, partitioning, encoded)
        await self._client._exchange(parts, self._timeout, request="SendMessages", repeatable=True)

    def _ids(self, count: int) -> bytes:
        with self._guard:
            return self._new_ids(count)

    async def _partition_of(self, key: bytes) -> int:
        """The partition that the server would choose for the key, so that messages with different
        keys can share a batch."""
        now = time.monotonic()
        if now - self._partitions_at > PARTITIONS_SECONDS:
            self._partitions = await self._client._partitions_count(self._topic)
            self._partitions_at = now
        if not self._partitions:
            raise NoPartitions("the topic has no partitions")
        return partition_for_key(key, self._partitions)
