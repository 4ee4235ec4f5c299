"""The ring of redundant headers: what tells a rotten last record from a torn one (S5).

::

    bytes        field    a file of 1024 slots
    0..256       header   of a Prepare whose journal record is on the disk; zeros when never used
    256..512     …

A journal record is written and synced first, then its header goes into the next slot and is synced
as well, and only then ``on_written`` reports it. So a header in the ring proves that its record was
whole once: if the record is bad now, it rotted, and this replica may have acknowledged it. A bad
record at the end of the journal that no slot names was never reported: a torn write.

Slots are found by identity, so their order means nothing and neither does a bad slot (the write of
it was interrupted). The ring is larger than the journal writes that may wait for one sync, so the
headers of the last batch are always in it. Pure over bytes.
"""

from typing import Final

from borzoi.consensus.frames import checksum, encode_headers, unpack_prepare
from borzoi.consensus.messages import HEADER_BYTES, U128, Command, Prepare

RING_SLOTS: Final = 1024
RING_BYTES: Final = RING_SLOTS * HEADER_BYTES


def slot_position(number: int) -> int:
    """Where the header of the n-th record since the ring was begun goes."""
    return number % RING_SLOTS * HEADER_BYTES


def encode_ring(headers: list[Prepare]) -> bytes:
    """A whole ring that begins with the newest of these; the next header goes behind them."""
    kept = headers[-RING_SLOTS:]
    return encode_headers(kept) + bytes((RING_SLOTS - len(kept)) * HEADER_BYTES)


def decode_ring(ring: bytes, cluster: U128) -> dict[U128, Prepare]:
    """The headers that are good, by identity."""
    found: dict[U128, Prepare] = {}
    for start in range(0, len(ring), HEADER_BYTES):
        header = header_in(ring[start : start + HEADER_BYTES], cluster)
        if header is not None:
            found[header.checksum] = header
    return found


def is_sound(ring: bytes, cluster: U128) -> bool:
    """Whether every slot is a header or was never used: then it has forgotten nothing."""
    for start in range(0, len(ring), HEADER_BYTES):
        raw = ring[start : start + HEADER_BYTES]
        if any(raw) and header_in(raw, cluster) is None:
            return False
    return True


def header_in(raw: bytes, cluster: U128) -> Prepare | None:
    """The prepare header in these 256 bytes, if they are one and whole."""
    if len(raw) < HEADER_BYTES or raw[60] != Command.PREPARE or raw[32:48] != cluster:
        return None
    if checksum(raw[16:]) != raw[:16]:
        return None
    return unpack_prepare(raw)
