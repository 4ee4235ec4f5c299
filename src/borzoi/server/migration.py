"""Moves connections to the shard that owns the partition they send to.

The live socket, its session, and the bytes that were read and not run are sent in one envelope. The
old shard drops the connection when the envelope is sent, and the new one adopts it on arrival. If
either dies in between, the socket closes with the last descriptor, and the client sees a closed
connection with nothing pending. A connection moves once.
"""

import logging
import socket
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from borzoi.handlers.call import Services
from borzoi.handlers.sessions import Session, SessionRecord
from borzoi.listeners.interface import Detached
from borzoi.listeners.tcp import TcpListener
from borzoi.model.namespace import Namespace
from borzoi.model.users import UserStatus
from borzoi.model.value import Value
from borzoi.shard.bus import Arrived, Bus, Letter
from borzoi.shard.envelopes import Subject

log = logging.getLogger(__name__)


class Moved(Value):
    """What is sent with the socket."""

    record: SessionRecord
    #: The birth of the session's user: ids are reused.
    birth: int
    unread: bytes
    #: The topic it sends to, and the partition of the next balanced send there: otherwise the
    #: client's round robin would restart.
    topic: tuple[int, int]
    turn: int


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Moved)


class Migration:
    """Sends connections to other shards, and adopts theirs."""

    def __init__(
        self, bus: Bus, services: Services, listeners: Callable[[], Sequence[object]]
    ) -> None:
        self._bus = bus
        self._services = services
        self._listeners = listeners

    def begin(self) -> None:
        """Start to adopt connections of other shards: the listeners of this one are ready."""
        self._bus.answer(Subject.MIGRATION, self._arrived)

    def move(self, session: Session, shard: int, place: Namespace) -> bool:
        """Move the connection of a session; return whether it has left. It stays while something is
        pending, and if the session is a member of a group."""
        if session.migrated or session.joined or session.user_id is None:
            return False
        user = self._services.metadata.state.users.get(session.user_id)
        listener = self._tcp_listener()
        if user is None or listener is None or not self._bus.is_there(shard):
            return False
        connection = next((one for one in listener.connections if one.session is session), None)
        detached = None if connection is None else connection.detach()
        if detached is None:
            return False
        self._services.sessions.remove(session)
        topic = (place.stream_id, place.topic_id)
        turn = self._services.partitions.turn_of(*topic)
        body = _ENCODER.encode(Moved(detached.record, user.birth, detached.unread, topic, turn))
        self._bus.tell(shard, Subject.MIGRATION, Letter(body, [detached.sock.detach()]))
        return True

    def _arrived(self, told: Arrived) -> Letter:
        sock = socket.socket(fileno=told.descriptors[0])
        moved = _DECODER.decode(told.body)
        listener = self._tcp_listener()
        if listener is None or not self._is_current(moved):
            sock.close()
            return Letter()
        self._services.partitions.set_turn(*moved.topic, moved.turn)
        record = msgspec.structs.replace(moved.record, migrated=True)
        listener.adopt(Detached(sock, record, moved.unread))
        return Letter()

    def _is_current(self, moved: Moved) -> bool:
        """Whether the user and the token still exist."""
        state, record = self._services.metadata.state, moved.record
        user = None if record.user_id is None else state.users.get(record.user_id)
        if user is None or user.birth != moved.birth or user.status is not UserStatus.ACTIVE:
            return False
        return record.token_hash is None or record.token_hash in state.token_owners

    def _tcp_listener(self) -> TcpListener | None:
        plain = [one for one in self._listeners() if type(one) is TcpListener]
        return plain[0] if plain else None
