"""XXH3 over messages, however many and however they are cut."""

import numpy as np
import pytest
from xxhash import xxh3_64_intdigest

from borzoi.records.checksum import (
    COPIED_BYTES_MAX,
    CUTS_AT_ONCE,
    checksum,
    checksums_between,
    checksums_of_equal,
    cutters,
)


def test_the_checksum_of_nothing_is_the_published_one() -> None:
    assert checksum(b"") == 3244421341483603138


@pytest.mark.parametrize("size", [64, 100, COPIED_BYTES_MAX, COPIED_BYTES_MAX + 1, 1064])
@pytest.mark.parametrize(
    "count",
    [2, 3, CUTS_AT_ONCE - 1, CUTS_AT_ONCE, CUTS_AT_ONCE + 1, 2 * CUTS_AT_ONCE, 4097],
)
def test_messages_of_one_size_are_hashed_without_their_first_8_bytes(size: int, count: int) -> None:
    data = np.random.default_rng(size).bytes(size * count)
    expected = [xxh3_64_intdigest(data[i * size + 8 : (i + 1) * size]) for i in range(count)]
    assert checksums_of_equal(memoryview(data), size, cutters(size, count)).tolist() == expected


def test_messages_of_any_size_are_hashed_without_their_first_8_bytes() -> None:
    data = np.random.default_rng(1).bytes(1000)
    ends = [64, 200, 1000]
    expected = [xxh3_64_intdigest(data[a + 8 : b]) for a, b in [(0, 64), (64, 200), (200, 1000)]]
    assert checksums_between(memoryview(data), np.array(ends, np.uint32)).tolist() == expected
