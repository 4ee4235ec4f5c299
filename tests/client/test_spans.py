"""Expiries and sizes in the units of the wire."""

from datetime import timedelta

import pytest

from borzoi.client.spans import expiry_of, size_of
from borzoi.model.errors import InvalidFormat
from borzoi.model.limits import NEVER, UNLIMITED


@pytest.mark.parametrize(
    ("expiry", "microseconds"),
    [(0, 0), (5, 5), (timedelta(seconds=1), 1_000_000), ("1s", 1_000_000), ("never_expire", NEVER)],
)
def test_an_expiry_is_microseconds(expiry, microseconds: int) -> None:
    assert expiry_of(expiry) == microseconds


@pytest.mark.parametrize("expiry", [-1, timedelta(seconds=-1), 2**64, "soon"])
def test_an_impossible_expiry_is_refused(expiry) -> None:
    with pytest.raises(InvalidFormat):
        expiry_of(expiry)


@pytest.mark.parametrize(("size", "count"), [(7, 7), ("1 KiB", 1024), ("unlimited", UNLIMITED)])
def test_a_size_is_bytes(size, count: int) -> None:
    assert size_of(size) == count
