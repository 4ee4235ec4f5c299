"""Dispatch on one shard of several: sends and polls that go to another shard.

Such requests are answered by the future of the bus itself, whose listeners run as soon as the reply
is there: another future would cost a turn of the event loop. Clients that should move to another
shard are reported.
"""

from collections.abc import Callable
from functools import partial

from borzoi.handlers.answers import Answer, Delivery
from borzoi.handlers.call import Services
from borzoi.handlers.dispatch import POLL, SEND, Dispatcher, Performed
from borzoi.handlers.messages import delivered
from borzoi.handlers.prepared import PreparedPoll, PreparedSend
from borzoi.handlers.sessions import Session
from borzoi.memory.pool import NOWHERE, Payload
from borzoi.model.consuming import ConsumerKind, PollingStrategy
from borzoi.model.namespace import Namespace
from borzoi.partitions.futures import PromptFuture
from borzoi.partitions.operations import Poll
from borzoi.records.batch import Batch
from borzoi.shard.answering import NOBODY, NOT_ANSWERED
from borzoi.shard.client_socket import ANSWERED
from borzoi.shard.reading_ahead import ReadingAhead
from borzoi.shard.routing import RoutedPartitionPlane


class OwnersAnswer(PromptFuture[Answer]):
    """The answer to a send that the owner of the partition may have given to the client already.
    `mark` is the byte in front of the batch."""

    def __init__(self, session: Session, mark: memoryview) -> None:
        super().__init__()
        self._session = session
        self._mark = mark

    def fail(self, fault: Exception) -> None:
        if self._mark[0] == NOT_ANSWERED:
            super().fail(fault)
            return
        # The owner died when it answered. Two answers would be worse than a closed connection.
        self._session.closing = True
        self.settle(ANSWERED)


class RoutedDispatcher(Dispatcher):
    """Calls `misplaced`, if given, after a client's send to a named partition was answered by
    another shard, with its session, that shard and the partition."""

    def __init__(
        self,
        services: Services,
        plane: RoutedPartitionPlane,
        misplaced: Callable[[Session, int, Namespace], object] | None = None,
    ) -> None:
        super().__init__(services)
        self._plane = plane
        self._misplaced = misplaced

    def send(
        self,
        session: Session,
        namespace: Namespace,
        batch: Batch,
        prepared: PreparedSend | None = None,
        payload: Payload | None = None,
    ) -> Performed:
        plane = self._plane
        owner = plane.ownership.owner_of(namespace)
        if owner == plane.ownership.shard:
            return super().send(session, namespace, batch)
        position, client = NOWHERE, NOBODY
        answer: PromptFuture[Answer] | None = None
        misplaced = self._misplaced
        names_it = prepared is not None and prepared.namespace is not None
        moves = misplaced is not None and names_it and not session.migrated
        if payload is not None and payload.position >= 0:
            view = payload.view
            position = payload.position + len(view) - batch.size
            if session.socket is not None and not moves:
                client = plane.answering.number_of(owner, session.socket)
                # The byte is one of the index, which was read before.
                mark = view[-batch.size - 1 : -batch.size]
                mark[0] = NOT_ANSWERED
                answer = OwnersAnswer(session, mark)
        now = self.services.clock()
        answer = plane.append(owner, namespace, batch, now, position, client, answer)
        self._pending[answer] = SEND
        answer.listen(self._pending.pop)
        if moves and misplaced is not None:
            # In the turn after the answer was sent, so that nothing is pending.
            answer.add_done_callback(
                lambda done: done.get_loop().call_soon(misplaced, session, owner, namespace)
            )
        return answer

    def poll(
        self,
        session: Session,
        prepared: PreparedPoll,
        strategy: PollingStrategy,
        count: int,
        auto_commit: bool,
    ) -> Performed:
        namespace, consumer_id = prepared.namespace, prepared.consumer_id
        ownership = self._plane.ownership
        owner = ownership.owner_of(namespace)
        if owner == ownership.shard:
            return super().poll(session, prepared, strategy, count, auto_commit)
        services = self.services
        if auto_commit:
            quota = services.consumer_quota
            quota.admit(session.user_id, namespace.stream_id, namespace.topic_id, consumer_id)
        kind, size_max = ConsumerKind.CONSUMER, services.polled_bytes_max
        operation = Poll(strategy, count, kind, consumer_id, auto_commit, size_max)
        return self._polled(
            self._plane.poll(
                owner, namespace, operation, lambda polled: delivered(namespace, polled)
            )
        )

    def polls_behind(
        self, prepared: PreparedPoll, offset: int, count: int
    ) -> Callable[[int], Performed] | None:
        namespace = prepared.namespace
        ownership = self._plane.ownership
        owner = ownership.owner_of(namespace)
        if owner == ownership.shard:
            return None
        strategy, size_max = PollingStrategy.offset(offset), self.services.polled_bytes_max
        poll = Poll(strategy, count, ConsumerKind.CONSUMER, prepared.consumer_id, False, size_max)
        return partial(self._poll_on, namespace, self._plane.reading_ahead(owner, namespace, poll))

    def _poll_on(self, namespace: Namespace, ahead: ReadingAhead, offset: int) -> Performed:
        polled = ahead.known(offset)
        if polled is not None:
            return Delivery(namespace.partition_id, polled.current_offset, polled.reading)
        return self._polled(ahead.ask(offset, lambda polled: delivered(namespace, polled)))

    def _polled(self, answer: PromptFuture[Answer]) -> Performed:
        self._pending[answer] = POLL
        answer.listen(self._pending.pop)
        return answer
