"""Expiries and sizes as callers write them, in the units of the wire."""

from datetime import timedelta

from borzoi.model.errors import InvalidFormat
from borzoi.model.limits import U64_MAX
from borzoi.model.units import parse_expiry, parse_max_size


def expiry_of(expiry: timedelta | str | int) -> int:
    """Return microseconds; the meaning of 0 depends on the command."""
    if isinstance(expiry, str):
        return parse_expiry(expiry)
    microseconds = expiry // timedelta(microseconds=1) if isinstance(expiry, timedelta) else expiry
    if not 0 <= microseconds <= U64_MAX:
        raise InvalidFormat(f"an expiry of {microseconds} µs is not within 0..{U64_MAX}")
    return microseconds


def size_of(size: str | int) -> int:
    """Bytes."""
    return parse_max_size(size) if isinstance(size, str) else size
