"""One entry of the metadata log, and how to find the last whole one.

    bytes        field
    0..8         index        u64, one more than the entry before
    8..16        term         u64, the view in which it was agreed; 0 without a cluster
    16..24       timestamp    u64, µs
    24..28       user_id      u32, of the requester
    28..32       code         u32, the command's number; the highest bit says "encrypted"
    32..36       length       u32, of the command as stored
    36..36+n     command      MessagePack, or nonce ‖ ciphertext ‖ tag
    36+n..68+n   checksum     SHA-256 over everything before it in this entry

Entries lie back to back. Only bytes and values here; `state_log.py` has the file.
"""

import hashlib
import struct
from collections.abc import Iterator
from typing import Final

import numpy as np

from borzoi.model.errors import CannotDecrypt, StateCorrupted
from borzoi.model.value import Value
from borzoi.security.encryption import Cipher

HEADER: Final = struct.Struct("<QQQIII")
assert HEADER.size == 36
CHECKSUM_BYTES: Final = 32
ENTRY_BYTES_MIN: Final = HEADER.size + CHECKSUM_BYTES

#: Set in `code` when the command's bytes are encrypted, so that encryption can be turned on later.
ENCRYPTED: Final = 1 << 31

#: A command is a control request, which is bounded; anything longer is a damaged length.
COMMAND_BYTES_MAX: Final = 16 * 1024 * 1024

#: How many bytes are searched at once for an entry behind damage.
_SEARCH_BYTES: Final = 1 << 20


class StateEntry(Value):
    """An agreed command: the user, the command, the time, and its index in the log."""

    index: int
    term: int
    timestamp: int
    user_id: int
    code: int
    command: bytes


class TornTail(Value):
    """Bytes after the last complete entry, with no entry after them: an interrupted append."""

    position: int
    length: int
    index: int
    reason: str


def encode_entry(entry: StateEntry, cipher: Cipher | None = None) -> bytes:
    """The entry's bytes, its command encrypted when there is a cipher."""
    code, command = entry.code, entry.command
    if cipher is not None:
        code, command = code | ENCRYPTED, cipher.encrypt(command)
    signed = (
        HEADER.pack(entry.index, entry.term, entry.timestamp, entry.user_id, code, len(command))
        + command
    )
    return signed + hashlib.sha256(signed).digest()


def read_entries(
    data: bytes | bytearray | memoryview,
    *,
    first_index: int | None = None,
    cipher: Cipher | None = None,
) -> Iterator[StateEntry | TornTail]:
    """Every entry in order, then a `TornTail` if bytes are left over.

    Damage that is followed by a whole entry cannot come from a cut-off append, so it raises
    `StateCorrupted` with the place; so does an index that does not continue. Without
    `first_index` the log may begin anywhere (what came before is in a snapshot).
    """
    view = memoryview(data)
    position = 0
    expected = first_index
    while position < len(view):
        fault = _fault_at(view, position, expected)
        if fault is not None:
            index = 0 if expected is None else expected
            if _fault_at(view, position, None) is None:
                raise StateCorrupted(
                    f"at byte {position} of the metadata log entry {index} is expected, {fault}"
                )
            behind = _next_whole_entry(view, position + 1, expected)
            if behind is not None:
                raise StateCorrupted(
                    f"entry {index} of the metadata log, at byte {position}, is damaged ({fault});"
                    f" a whole entry follows at byte {behind}, so this is not an interrupted write"
                )
            yield TornTail(position, len(view) - position, index, fault)
            return
        entry, position = _entry_at(view, position, cipher)
        expected = entry.index + 1
        yield entry


def _fault_at(view: memoryview, position: int, expected: int | None) -> str | None:
    """Return what is wrong with the entry that should begin here, or None."""
    left = len(view) - position
    if left < ENTRY_BYTES_MIN:
        return f"only {left} bytes are left"
    index, _, _, _, _, length = HEADER.unpack_from(view, position)
    if expected is not None and index != expected:
        return f"the index reads {index}"
    if length > COMMAND_BYTES_MAX:
        return f"the length reads {length}"
    if left < ENTRY_BYTES_MIN + length:
        return f"it needs {ENTRY_BYTES_MIN + length} bytes and {left} are left"
    if not _checksum_holds(view, position, length):
        return "the checksum does not fit"
    return None


def _checksum_holds(view: memoryview, position: int, length: int) -> bool:
    end = position + HEADER.size + length
    return hashlib.sha256(view[position:end]).digest() == view[end : end + CHECKSUM_BYTES]


def _entry_at(view: memoryview, position: int, cipher: Cipher | None) -> tuple[StateEntry, int]:
    index, term, timestamp, user_id, code, length = HEADER.unpack_from(view, position)
    start = position + HEADER.size
    command = bytes(view[start : start + length])
    if code & ENCRYPTED:
        code &= ~ENCRYPTED
        where = f"entry {index} of the metadata log, at byte {position},"
        if cipher is None:
            raise CannotDecrypt(f"{where} is encrypted and no encryption key is configured")
        try:
            command = cipher.decrypt(command)
        except CannotDecrypt:
            # The checksum held, so the bytes are the ones that were written.
            raise CannotDecrypt(f"{where} was encrypted with another key") from None
    entry = StateEntry(index, term, timestamp, user_id, code, command)
    return entry, start + length + CHECKSUM_BYTES


def _next_whole_entry(view: memoryview, start: int, expected: int | None) -> int | None:
    """Where the next entry with a fitting checksum begins, at any byte from `start` on.

    An entry behind the damaged one has a higher index, but not higher than there is room for
    entries in between; that leaves few candidates whose checksum must be computed.
    """
    room = (len(view) - start) // ENTRY_BYTES_MIN + 2
    index_min, index_max = (0, 1 << 48) if expected is None else (expected, expected + room)
    last = len(view) - ENTRY_BYTES_MIN
    for chunk_start in range(start, last + 1, _SEARCH_BYTES):
        chunk = np.frombuffer(view[chunk_start : chunk_start + _SEARCH_BYTES + 7], dtype=np.uint8)
        windows = np.lib.stride_tricks.sliding_window_view(chunk, 8)
        numbers = np.ascontiguousarray(windows).view("<u8")[:, 0]
        for candidate in np.flatnonzero((numbers >= index_min) & (numbers <= index_max)):
            position = chunk_start + int(candidate)
            if position <= last and _fault_at(view, position, None) is None:
                return position
    return None
