"""Small sends of one turn of the event loop, stored together.

When many connections send small batches, several are ready in the same turn. Each would be
stamped, written and indexed by itself, and the system call and the steps around it cost more than
the bytes. So the batches for one partition are joined when the turn ends and stored as one; each
client gets an answer of its own.

A client that is alone does not wait for the end of the turn: its send is stored at once. Only after
a turn with company do all sends of the next one gather. A client has at most one send here, because
its next request begins after the answer, so the order of its messages is kept. What is joined is
one append for the log, so a segment may end a few sends of other clients later.

A producer repeats itself: with the accelerator, a frame that begins like the last one of its
connection is compared, checked and joined by one call (`repeat`).
"""

import asyncio
from asyncio import Future
from collections.abc import Callable, Container
from typing import Final, Protocol

import msgspec

from borzoi.handlers.answers import Answer
from borzoi.handlers.sessions import Session
from borzoi.listeners.repeated_polls import RepeatedPoll
from borzoi.model.namespace import Namespace
from borzoi.protocol.framing import DONE
from borzoi.records.accelerator import Ends
from borzoi.records.batch import Batch, JoinedBatches

#: A larger batch gains nothing: writing its bytes is most of its cost.
GATHERED_BYTES_MAX: Final = 16 * 1024
#: Bytes that gather in one turn; further sends are stored at once.
TURN_BYTES_MAX: Final = 512 * 1024
#: Scheduling the end of a turn costs about a tenth of a small send. A client that was alone for
#: this many sends looks for company only on every 17th. A prime, so that clients that take turns
#: regularly are not always checked at the same one.
ALONE_MAX: Final = 17


class Repeated:
    """What sends of one user have in common that begin with the same bytes. One of them that
    arrives behind another needs no other check while the metadata is the same."""

    __slots__ = ("namespace", "revision", "sends", "start", "user_id")

    def __init__(
        self, user_id: int | None, revision: int, namespace: Namespace, start: bytes
    ) -> None:
        self.user_id = user_id
        self.revision = revision
        self.namespace = namespace
        #: The bytes of their frames from the code to the number of messages.
        self.start = start
        #: Where those of this turn gather, once there is one.
        self.sends: _Sends | None = None


class GatheredSender(Protocol):
    """Whose send waits for the end of the turn."""

    def concluded(self, reply: bytes | None) -> None:
        """The send was answered with this frame; None when there is none, and the client has to
        go."""

    def may_repeat(self, repeated: Repeated | RepeatedPoll) -> None:
        """The next send or poll may be like this one."""


class MeasuredSender:
    """A sender, and what to call when its send is answered."""

    __slots__ = ("_measure", "_sender")

    def __init__(self, sender: GatheredSender, measure: Callable[[], None]) -> None:
        self._sender = sender
        self._measure = measure

    def concluded(self, reply: bytes | None) -> None:
        self._measure()
        self._sender.concluded(reply)

    def may_repeat(self, repeated: Repeated | RepeatedPoll) -> None:
        self._sender.may_repeat(repeated)


class _Sends(msgspec.Struct):
    """What gathered for one partition."""

    #: Of the first one; it stands for all in the log.
    session: Session
    batches: JoinedBatches = msgspec.field(default_factory=JoinedBatches)
    senders: list[GatheredSender] = []
    #: What refers to these sends.
    repeated: list[Repeated] = []

    def close(self) -> None:
        """Nothing joins them any more."""
        for repeated in self.repeated:
            repeated.sends = None


class GatheredSends:
    """The sends of all connections of one shard that wait for the end of the turn.

    `store` appends a batch: None when it is acknowledged, else what to wait for. `refused` gives
    the response for what it raises. `owned` are the partitions whose sends may gather.
    """

    __slots__ = (
        "_alone",
        "_bytes",
        "_has_company",
        "_is_open",
        "_loop",
        "_owned",
        "_refused",
        "_store",
        "running",
        "sends",
    )

    def __init__(
        self,
        store: "Callable[[Session, Namespace, Batch], Answer | Future[Answer]]",
        refused: Callable[[Session, Exception], bytes],
        owned: Container[Namespace],
    ) -> None:
        self._owned = owned
        self._store = store
        self._refused = refused
        self._loop = asyncio.get_running_loop()
        #: By the partition they go to.
        self.sends: dict[Namespace, _Sends] = {}
        self._bytes = 0
        self._is_open = False
        self._has_company = False
        #: Sends since one last had company.
        self._alone = 0
        #: Stands for the answer of every send that waits here. It is never resolved.
        self.running: Future[Answer] = self._loop.create_future()

    def take(
        self,
        session: Session,
        namespace: Namespace,
        messages: memoryview,
        ends: Ends,
        sender: GatheredSender,
    ) -> bool:
        """Copy the messages of a small batch, store them when the turn ends, and then call
        `concluded`. False when they are to be stored at once."""
        if len(messages) > GATHERED_BYTES_MAX or namespace not in self._owned:
            return False
        if not self._is_open:
            self._alone += 1
            if self._alone >= ALONE_MAX and self._alone % ALONE_MAX:
                return False
            self._open()
            if not self._has_company:
                return False
        if self._bytes > TURN_BYTES_MAX:
            return False
        sends = self.sends.get(namespace)
        if sends is None:
            sends = self.sends[namespace] = _Sends(session)
        sends.batches.add(messages, ends)
        sends.senders.append(sender)
        self._bytes += len(messages)
        return True

    def repeat(
        self, session: Session, repeated: Repeated, frame: memoryview, sender: GatheredSender
    ) -> bool:
        """The same for a frame like the last one of its connection. False when it is not, or is to
        be looked at more closely."""
        sends = repeated.sends or self._sends_of(session, repeated)
        if sends is None or self._bytes > TURN_BYTES_MAX or len(frame) > GATHERED_BYTES_MAX:
            return False
        size = sends.batches.join(frame, repeated.start)
        if not size:
            return False
        sends.senders.append(sender)
        self._bytes += size
        return True

    def _sends_of(self, session: Session, repeated: Repeated) -> _Sends | None:
        """Where repeated sends gather in this turn, if they may."""
        if not self._has_company or repeated.namespace not in self._owned:
            return None
        if not self._is_open:
            self._open()
        sends = self.sends.get(repeated.namespace)
        if sends is None:
            sends = self.sends[repeated.namespace] = _Sends(session)
        repeated.sends = sends
        sends.repeated.append(repeated)
        return sends

    def _open(self) -> None:
        self._is_open = True
        self._loop.call_soon(self._end_turn)

    def flush(self, namespace: Namespace) -> None:
        """Store now what gathered for the partition: something is about to be stored behind it."""
        sends = self.sends.pop(namespace, None)
        if sends is not None:
            sends.close()
            self._finish(namespace, sends)

    def _end_turn(self) -> None:
        self._is_open = False
        gathered, self.sends, self._bytes = self.sends, {}, 0
        self._has_company = any(len(sends.senders) > 1 for sends in gathered.values())
        if gathered:
            self._alone = 0
        for sends in gathered.values():
            sends.close()
        for namespace, sends in gathered.items():
            self._finish(namespace, sends)

    def _finish(self, namespace: Namespace, sends: _Sends) -> None:
        if not sends.senders:
            return
        reply: bytes | None = DONE
        try:
            stored = self._store(sends.session, namespace, sends.batches.batch())
        except Exception as fault:
            reply = self._refused(sends.session, fault)
        else:
            if isinstance(stored, Future):
                stored.add_done_callback(lambda done: self._settle(sends, done))
                return
        for sender in sends.senders:
            sender.concluded(reply)

    def _settle(self, sends: _Sends, done: "Future[Answer]") -> None:
        reply: bytes | None = DONE
        if done.cancelled():
            reply = None
        elif isinstance(fault := done.exception(), Exception):
            reply = self._refused(sends.session, fault)
        for sender in sends.senders:
            sender.concluded(reply)
