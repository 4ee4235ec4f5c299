"""The last requests and replies of each client, so that a retry is executed at most once (C1).

Changed only by applying committed ops, so it is equal on every replica; part of checkpoints.

::

    bytes     field              one session in a checkpoint, oldest commit first
    0..16     client             u128
    16..24    epoch              u64, op of the latest Register
    24..32    watermark          u64, highest committed request
    32..48    request_checksum   u128, of that request
    48..56    commit             u64, op of the latest commit
    56..60    user_id            u32
    60..64    reply status       u32
    64..68    reply length       u32, then the reply
"""

from enum import Enum
from struct import Struct
from typing import Final, NamedTuple

from borzoi.consensus.messages import U128, ZERO
from borzoi.model.errors import StateCorrupted

REPLIES_KEPT: Final = 5
_SESSION: Final = Struct("<16sQQ16sQIII")
_EPOCH: Final = Struct("<Q")


class CachedReply(NamedTuple):
    request: int
    status: int
    payload: bytes


class ClientSession:
    """One client's life between two Registers."""

    __slots__ = ("commit", "epoch", "replies", "request_checksum", "user_id", "watermark")

    def __init__(self, epoch: int, user_id: int) -> None:
        self.epoch = epoch
        self.user_id = user_id
        self.watermark = 0
        self.request_checksum = ZERO
        self.commit = epoch
        self.replies: list[CachedReply] = []


class RequestVerdict(Enum):
    """What the primary does with a request before it becomes an op."""

    NEW = "new"
    UNKNOWN_SESSION = "unknown session"
    FENCED = "fenced"
    RESEND = "resend"
    ALREADY_APPLIED = "already applied"
    MISMATCH = "another request under the same number"


class ClientTable:
    """Sessions in the order of their latest commit: the first is the one to evict."""

    __slots__ = ("_sessions", "_sessions_max")

    def __init__(self, sessions_max: int) -> None:
        self._sessions: dict[U128, ClientSession] = {}
        self._sessions_max = sessions_max

    def __len__(self) -> int:
        return len(self._sessions)

    def preflight(
        self, client: U128, request: int, request_checksum: U128, epoch: int
    ) -> tuple[RequestVerdict, CachedReply | None]:
        """Judge a request by what is committed; ``epoch`` 0 means the sender does not say."""
        session = self._sessions.get(client)
        if session is None:
            return RequestVerdict.UNKNOWN_SESSION, None
        if epoch and epoch != session.epoch:
            return RequestVerdict.FENCED, None
        if request > session.watermark:
            return RequestVerdict.NEW, None
        if request == session.watermark and request_checksum != session.request_checksum:
            return RequestVerdict.MISMATCH, None
        for reply in session.replies:
            if reply.request == request:
                return RequestVerdict.RESEND, reply
        return RequestVerdict.ALREADY_APPLIED, None

    def register(self, client: U128, op: int, user_id: int) -> bytes:
        """Apply a Register: a new epoch, older holders of the client id are fenced."""
        self._sessions.pop(client, None)
        # Oldest commit first by construction, so the victim is the same on every replica.
        while len(self._sessions) >= self._sessions_max:
            del self._sessions[next(iter(self._sessions))]
        session = self._sessions[client] = ClientSession(op, user_id)
        answer = _EPOCH.pack(op)
        session.replies.append(CachedReply(0, 0, answer))
        return answer

    def unregister(self, client: U128) -> None:
        self._sessions.pop(client, None)

    def record(
        self, client: U128, op: int, request: int, request_checksum: U128, reply: CachedReply
    ) -> None:
        """Apply any other op of a client. One whose session has ended has no effect."""
        session = self._sessions.pop(client, None)
        if session is None:
            return
        self._sessions[client] = session
        session.commit = op
        session.watermark = request
        session.request_checksum = request_checksum
        session.replies.append(reply)
        if len(session.replies) > REPLIES_KEPT:
            del session.replies[0]

    def encode(self) -> bytes:
        parts: list[bytes] = []
        for client, session in self._sessions.items():
            _, status, payload = session.replies[-1]
            # fmt: off
            parts.append(_SESSION.pack(
                client, session.epoch, session.watermark, session.request_checksum,
                session.commit, session.user_id, status, len(payload),
            ))
            # fmt: on
            parts.append(payload)
        return b"".join(parts)

    def restore(self, data: bytes) -> None:
        """Take the place of whatever is here; capacity is kept as configured."""
        self._sessions.clear()
        position = 0
        while position < len(data):
            end = position + _SESSION.size
            if end > len(data):
                raise StateCorrupted("the client table ends inside a session")
            fields = _SESSION.unpack_from(data, position)
            client, epoch, watermark, request_checksum, commit, user_id, status, length = fields
            position = end + length
            if position > len(data):
                raise StateCorrupted("the client table ends inside a reply")
            session = self._sessions[client] = ClientSession(epoch, user_id)
            session.watermark = watermark
            session.request_checksum = request_checksum
            session.commit = commit
            session.replies.append(CachedReply(watermark, status, data[end:position]))
