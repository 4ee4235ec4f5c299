"""Sessions: which clients are connected, as which user, since when."""

from collections.abc import Callable, Iterator
from typing import Final, Self

import msgspec

from borzoi.model.limits import U32_MAX
from borzoi.model.system import TransportKind
from borzoi.model.value import Value
from borzoi.shard.client_socket import ClientSocket

#: The client id that no session has.
NOBODY: Final = 0


class SessionRecord(Value):
    """The part of a session that can move to another process of this machine.

    The rest belongs to the process: how to end the connection, and what is only true of sessions
    that cannot move (a pending login, stale, closing).
    """

    client_id: int
    address: str
    transport: TransportKind
    #: Monotonic seconds; processes of one machine share that clock.
    pinged_at: float
    user_id: int | None
    token_hash: str | None
    joined: bool
    migrated: bool = False


class Session(msgspec.Struct, eq=False):
    """One connection. It is unauthenticated until `user_id` is set."""

    client_id: int
    address: str
    transport: TransportKind
    #: Ends the connection; set by its listener.
    hang_up: Callable[[], None]
    #: Monotonic seconds of the last ping, or of the connect before there was one.
    pinged_at: float
    user_id: int | None = None
    #: Hash of the token that logged in, so that deleting the token ends the session.
    token_hash: str | None = None
    #: A login is queued: the login timeout must not count our own delay.
    login_pending: bool = False
    #: It has requested to join a group, so `ClientGone` must be proposed when it ends.
    joined: bool = False
    #: Its connection came from another process; it does not move again.
    migrated: bool = False
    #: It polls and waits for messages, so it cannot send a ping.
    waiting: bool = False
    #: The client has closed its side of the connection, most likely both: no poll waits.
    input_ended: bool = False
    #: Set by the heartbeat verifier; the client has to reconnect.
    stale: bool = False
    #: Set by a handler: the connection ends once the answer has left.
    closing: bool = False
    #: Its socket, if another process of this server may write an answer to it.
    socket: ClientSocket | None = None

    @property
    def record(self) -> SessionRecord:
        return msgspec.convert(self, SessionRecord, from_attributes=True)

    @classmethod
    def restored(cls, record: SessionRecord) -> Self:
        """The session in the process that adopts its connection, which sets `hang_up`."""
        return cls(hang_up=lambda: None, **msgspec.structs.asdict(record))


class Sessions:
    """The registry of all sessions of this server, by client id."""

    def __init__(self) -> None:
        self._by_id: dict[int, Session] = {}
        #: Sessions that are stale and still connected.
        self._stale: set[Session] = set()

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._by_id.values()))

    def add(self, session: Session) -> None:
        """Register a session. Two addresses may have the same hash: the second session gets the
        next free id, or the first could not be found by its user or token any more."""
        while session.client_id in self._by_id or session.client_id == NOBODY:
            session.client_id = (session.client_id + 1) & U32_MAX
        self._by_id[session.client_id] = session

    def get(self, client_id: int) -> Session | None:
        return self._by_id.get(client_id)

    def remove(self, session: Session) -> bool:
        """Remove a session; return whether it was registered. Another one with its id stays."""
        self._stale.discard(session)
        if self._by_id.get(session.client_id) is not session:
            return False
        del self._by_id[session.client_id]
        return True

    def give_up(self, session: Session) -> bool:
        """Mark a session as stale: still connected, but unregistered. Return whether it was."""
        if self._by_id.get(session.client_id) is not session:
            return False
        del self._by_id[session.client_id]
        session.stale = True
        self._stale.add(session)
        return True

    def connected(self) -> list[Session]:
        """All sessions, stale ones included."""
        return [*self._by_id.values(), *self._stale]

    def of_user(self, user_id: int) -> list[Session]:
        return [session for session in self.connected() if session.user_id == user_id]

    def of_token(self, token_hash: str) -> list[Session]:
        return [session for session in self.connected() if session.token_hash == token_hash]

    def silent_since(self, moment: float) -> list[Session]:
        """Return the sessions whose last ping was before `moment`."""
        return [
            session
            for session in self
            if session.pinged_at < moment and not (session.stale or session.waiting)
        ]
