"""Frames: 256 bytes of header and a body, and the checks of a receiver in their order (F1).

::

    bytes     field            common part of every header, little-endian
    0..16     checksum         XXH3-128 of bytes 16..256 of the header
    16..32    checksum_body    XXH3-128 of the body, of an empty body too
    32..48    cluster          u128
    48..52    size             u32, header and body
    52..56    view             u32
    56..60    release          u32
    60        command          u8
    61        replica          u8
    62..128   reserved_frame   zero
    128..256  by command; the formats below, in the order of the named tuples of messages.py

The common part of a struct ends at 128; ``x`` is reserved space, zero on the wire. Repacking a
header gives its original bytes exactly when every reserved byte was zero, which is how check 5 is
done.
"""

from struct import Struct
from typing import Final, NamedTuple

from xxhash import xxh3_128_digest

from borzoi.consensus.config import FRAME_BYTES_MAX, SUFFIX_HEADERS_MAX
from borzoi.consensus.invariants import InvariantError
from borzoi.consensus.messages import (
    HEADER_BYTES,
    U128,
    UNSEALED,
    ZERO,
    Command,
    Commit,
    DoViewChange,
    Eviction,
    Handshake,
    Header,
    Headers,
    Operation,
    Ping,
    PingClient,
    Pong,
    PongClient,
    Prepare,
    PrepareOk,
    Reply,
    Request,
    RequestHeaders,
    RequestPrepare,
    RequestStartView,
    RequestStateChunk,
    RequestStateTransfer,
    StartView,
    StartViewChange,
    StateChunk,
    StateTransferTarget,
)
from borzoi.model.errors import BorzoiError

COMMON: Final = "<16s16s16sIIIBB66x"


class FrameLayout(NamedTuple):
    header: type[Header]
    struct: Struct
    has_body: bool


def _layout(header: type[Header], specific: str, *, has_body: bool = False) -> FrameLayout:
    struct = Struct(COMMON + specific)
    padding = HEADER_BYTES - struct.size
    return FrameLayout(header, Struct(f"{COMMON}{specific}{padding}x"), has_body)


# fmt: off
LAYOUTS: Final[dict[int, FrameLayout]] = {
    Command.PING:                   _layout(Ping, "QQQIB", has_body=True),
    Command.PONG:                   _layout(Pong, "QQQIB", has_body=True),
    Command.PING_CLIENT:            _layout(PingClient, "16s"),
    Command.PONG_CLIENT:            _layout(PongClient, "16s"),
    Command.REQUEST:                _layout(Request, "16s16sQQB7xQI4xQ", has_body=True),
    Command.PREPARE:                _layout(Prepare, "16s16s16sQQQQB7xQI", has_body=True),
    Command.PREPARE_OK:             _layout(PrepareOk, "16s16sQQQQB7xQ"),
    Command.REPLY:                  _layout(Reply, "16s16s16sQQQQB7xQI", has_body=True),
    Command.COMMIT:                 _layout(Commit, "16sQQQQ", has_body=True),
    Command.START_VIEW_CHANGE:      _layout(StartViewChange, "Q"),
    Command.DO_VIEW_CHANGE:         _layout(DoViewChange, "QQQI68x16s16s", has_body=True),
    Command.START_VIEW:             _layout(StartView, "QQQ88x16s", has_body=True),
    Command.EVICTION:               _layout(Eviction, "16s"),
    Command.REQUEST_START_VIEW:     _layout(RequestStartView, "QI100x16s"),
    Command.REQUEST_STATE_TRANSFER: _layout(RequestStateTransfer, "16sQ"),
    Command.STATE_TRANSFER_TARGET:  _layout(StateTransferTarget, "16sQQBB6xQ", has_body=True),
    Command.REQUEST_STATE_CHUNK:    _layout(RequestStateChunk, "16sQQII"),
    Command.STATE_CHUNK:            _layout(StateChunk, "16sQQI", has_body=True),
    Command.REQUEST_HEADERS:        _layout(RequestHeaders, "QQQ16s"),
    Command.HEADERS:                _layout(Headers, "Q", has_body=True),
    Command.REQUEST_PREPARE:        _layout(RequestPrepare, "QQ16s"),
    Command.HANDSHAKE:              _layout(Handshake, "BB6xQ16s16s32s32s"),
}
# fmt: on
_PACK: Final = {layout.header: layout.struct.pack for layout in LAYOUTS.values()}
# By command code, because every frame that arrives goes through here.
_UNPACK: Final = [
    (LAYOUTS[code].header, LAYOUTS[code].struct.unpack) if code in LAYOUTS else None
    for code in range(256)
]
_PREPARE: Final = LAYOUTS[Command.PREPARE].struct
_new: Final = tuple.__new__
_OPERATIONS: Final = frozenset(int(operation) for operation in Operation)


class FrameRefused(BorzoiError):
    """A frame failed a receive check; the connection is closed when ``closes_connection``."""

    def __init__(self, reason: str, *, closes_connection: bool) -> None:
        super().__init__(reason)
        self.closes_connection = closes_connection


def checksum(data: bytes | memoryview) -> U128:
    """XXH3-128 as a little-endian u128: the canonical digest is big-endian, so reversed."""
    return xxh3_128_digest(data)[::-1]


EMPTY_BODY: Final = checksum(b"")


def seal_prepare(unsealed: Prepare) -> Prepare:
    """The same prepare with its identity: the checksum of every header byte from 16 on (F2)."""
    raw = _PREPARE.pack(*unsealed)
    return _new(Prepare, (xxh3_128_digest(raw[16:])[::-1], *unsealed[1:]))


def root(cluster: U128, group: int) -> Prepare:
    """Op 0 of a group: never sent, never journaled, parent of op 1."""
    # fmt: off
    return seal_prepare(Prepare(
        UNSEALED, EMPTY_BODY, cluster, HEADER_BYTES, 0, 0, Command.PREPARE.value, 0,
        ZERO, ZERO, ZERO, 0, 0, 0, 0, Operation.RESERVED.value, group, 0,
    ))
    # fmt: on


def blank(op: int) -> Prepare:
    """What a DoViewChange says about an op whose header is unknown (V8)."""
    # fmt: off
    return Prepare(
        UNSEALED, ZERO, ZERO, 0, 0, 0, Command.PREPARE.value, 0,
        ZERO, ZERO, ZERO, op, 0, 0, 0, Operation.RESERVED.value, 0, 0,
    )
    # fmt: on


def is_blank(header: Prepare) -> bool:
    return header.checksum == UNSEALED


def pack_header(header: Header) -> bytes:
    """256 bytes, sealed unless the header already is."""
    raw = _PACK[type(header)](*header)
    if header[0] != UNSEALED:
        return raw
    sealed = raw[16:]
    return xxh3_128_digest(sealed)[::-1] + sealed


def unpack_header(raw: bytes) -> Header:
    """Trusts the bytes; decode_header is for those of others."""
    layout = _UNPACK[raw[60]]
    if layout is None:
        raise InvariantError(f"command {raw[60]} was checked before")
    return _new(layout[0], layout[1](raw))


def unpack_prepare(raw: bytes) -> Prepare:
    """The same for bytes whose command was already read."""
    return _new(Prepare, _PREPARE.unpack(raw))


def decode_header(raw: bytes, cluster: U128, frame_bytes_max: int = FRAME_BYTES_MAX) -> Header:
    """Check 1: checksum, cluster, command, size."""
    if len(raw) != HEADER_BYTES:
        raise FrameRefused("a header has 256 bytes", closes_connection=True)
    if checksum(raw[16:]) != raw[:16]:
        raise FrameRefused("header checksum", closes_connection=True)
    if raw[32:48] != cluster:
        raise FrameRefused("another cluster", closes_connection=True)
    if raw[60] not in LAYOUTS:
        raise FrameRefused(f"unknown command {raw[60]}", closes_connection=True)
    header = unpack_header(raw)
    if not HEADER_BYTES <= header.size <= frame_bytes_max:
        raise FrameRefused(f"size {header.size}", closes_connection=True)
    return header


def check_body(header: Header, body: bytes) -> None:
    """Check 3; check 2 (the identity of the peer) belongs to the connection."""
    if header.size != HEADER_BYTES + len(body) or checksum(body) != header.checksum_body:
        raise FrameRefused("body checksum", closes_connection=True)


def encode_frame(header: Header, body: bytes) -> bytes:
    return pack_header(header) + body


def decode_frame(data: bytes, cluster: U128, replica_count: int) -> tuple[Header, bytes]:
    """All checks but the one of the connection, for a frame that is complete."""
    raw, body = data[:HEADER_BYTES], data[HEADER_BYTES:]
    header = decode_header(raw, cluster)
    check_body(header, body)
    reason = validate(header, body, replica_count)
    if reason is None and pack_header(header) != raw:
        reason = "reserved bytes are not zero"
    if reason is not None:
        raise FrameRefused(reason, closes_connection=False)
    return header, body


def validate(header: Header, body: bytes, replica_count: int) -> str | None:
    """Check 4: what one command demands; the sentence says what is wrong."""
    if body and not LAYOUTS[header.command].has_body:
        return "a header-only command has a body"
    if header.replica >= replica_count:
        return f"replica {header.replica} is not in the roster"
    if isinstance(header, Prepare | Request) and header.operation not in _OPERATIONS:
        return f"unknown operation {header.operation}"
    if isinstance(header, DoViewChange) and header.log_view > header.view:
        return "log_view above view"
    if isinstance(header, StartView) and header.replica != header.view % replica_count:
        return "StartView from a replica that is not the primary of its view"
    if isinstance(header, DoViewChange | StartView):
        if header.commit > header.op:
            return "commit above op"
        return _validate_suffix(header, body)
    if isinstance(header, Headers) and decode_headers(body, header.cluster) is None:
        return "headers do not decode"
    return None


def _validate_suffix(header: DoViewChange | StartView, body: bytes) -> str | None:
    headers = decode_headers(body, header.cluster)
    if headers is None:
        return "suffix headers do not decode"
    if len(headers) != header.op - header.commit + 1:
        return "suffix does not reach from op down to commit"
    if any(entry.op != header.op - slot for slot, entry in enumerate(headers)):
        return "suffix headers out of order"
    if isinstance(header, StartView) and any(map(is_blank, headers)):
        return "StartView with a blank header"
    return None


def encode_headers(headers: list[Prepare]) -> bytes:
    """Prepare headers back to back; blanks stay unsealed."""
    return b"".join([_PREPARE.pack(*header) for header in headers])


def decode_headers(body: bytes, cluster: U128) -> list[Prepare] | None:
    """Prepare headers of a body, each blank or with a true checksum; None when one is not."""
    count, rest = divmod(len(body), HEADER_BYTES)
    if rest or count > SUFFIX_HEADERS_MAX:
        return None
    headers: list[Prepare] = []
    for start in range(0, len(body), HEADER_BYTES):
        raw = body[start : start + HEADER_BYTES]
        header = unpack_prepare(raw)
        if is_blank(header):
            if raw != _PREPARE.pack(*blank(header.op)):
                return None
        elif (
            header.command != Command.PREPARE
            or header.cluster != cluster
            or checksum(raw[16:]) != header.checksum
        ):
            return None
        headers.append(header)
    return headers
