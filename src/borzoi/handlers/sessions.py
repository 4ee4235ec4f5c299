"""Who is connected, as whom, since when."""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from borzoi.model.limits import U32_MAX
from borzoi.model.system import Transport

#: The client id that no session has.
NOBODY: Final = 0


class Session(msgspec.Struct, eq=False):
    """One connection. Nobody is logged in on it until `user_id` is set."""

    client_id: int
    address: str
    transport: Transport
    #: Ends the connection; set by the listener that made it.
    hang_up: Callable[[], None]
    #: Monotonic seconds of the last ping, or of the connect before there was one.
    pinged_at: float
    user_id: int | None = None
    #: Hash of the token that logged in, so that deleting the token ends the session.
    token_hash: str | None = None
    #: A login waits for its turn: the client did its part, however long ours takes.
    knocking: bool = False
    #: It asked to join a group, so its groups have to learn when it is gone.
    joined: bool = False
    #: Set by the heartbeat verifier: from now on only a reconnect helps.
    stale: bool = False
    #: Set by a handler: the connection ends once the answer has left.
    closing: bool = False


class Sessions:
    """The registry of all sessions of this server, by client id."""

    def __init__(self) -> None:
        self._by_id: dict[int, Session] = {}
        #: Those that were given up for their silence and are still connected.
        self._stale: set[Session] = set()

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._by_id.values()))

    def add(self, session: Session) -> None:
        """Two addresses may have one hash: who comes second gets the next free id, or the first
        would be lost to all who look for the sessions of a user or a token."""
        while session.client_id in self._by_id or session.client_id == NOBODY:
            session.client_id = (session.client_id + 1) & U32_MAX
        self._by_id[session.client_id] = session

    def get(self, client_id: int) -> Session | None:
        return self._by_id.get(client_id)

    def remove(self, session: Session) -> bool:
        """Whether it was there; a second removal, or that of a namesake, changes nothing."""
        self._stale.discard(session)
        if self._by_id.get(session.client_id) is not session:
            return False
        del self._by_id[session.client_id]
        return True

    def give_up(self, session: Session) -> bool:
        """It is no client any more, only a connection; whether it was one until now."""
        if self._by_id.get(session.client_id) is not session:
            return False
        del self._by_id[session.client_id]
        session.stale = True
        self._stale.add(session)
        return True

    def connected(self) -> list[Session]:
        """Also those that were given up."""
        return [*self._by_id.values(), *self._stale]

    def of_user(self, user_id: int) -> list[Session]:
        return [session for session in self.connected() if session.user_id == user_id]

    def of_token(self, token_hash: str) -> list[Session]:
        return [session for session in self.connected() if session.token_hash == token_hash]

    def silent_since(self, moment: float) -> list[Session]:
        """Sessions whose last ping lies before the moment."""
        return [session for session in self if session.pinged_at < moment and not session.stale]
