"""A histogram of latencies with a fixed relative error, as HDR histograms have it.

Values are whole nanoseconds. Below 128 each has its own bucket; above, every power of two is
divided into 64 buckets, so a reported value is off by less than 1 %. Histograms of several actors
add up, which percentiles do not.
"""

from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

#: Buckets per power of two, as a power of two.
PRECISION_BITS: Final = 6
HALF: Final = 1 << PRECISION_BITS
#: Latencies up to about 4.9 hours; longer ones count as this long.
VALUE_MAX: Final = (1 << 44) - 1
BUCKETS: Final = (44 - PRECISION_BITS + 1) * HALF


def bucket_of(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The bucket of each value."""
    bounded = np.clip(values, 0, VALUE_MAX)
    # frexp is exact for integers below 2**53: the exponent is the bit length.
    lengths = np.frexp(bounded.astype(np.float64))[1].astype(np.int64)
    shifts = np.maximum(lengths - (PRECISION_BITS + 1), 0)
    buckets: NDArray[np.int64] = shifts * HALF + (bounded >> shifts)
    return buckets


def value_of(bucket: int) -> float:
    """The middle of a bucket."""
    if bucket < 2 * HALF:
        return float(bucket)
    shift = bucket // HALF - 1
    low = (bucket - shift * HALF) << shift
    return low + ((1 << shift) - 1) / 2


class Histogram:
    """Counts of latencies in nanoseconds."""

    def __init__(self, counts: NDArray[np.int64] | None = None) -> None:
        self.counts = np.zeros(BUCKETS, np.int64) if counts is None else counts

    @classmethod
    def of(cls, values: NDArray[np.int64]) -> Self:
        return cls(np.bincount(bucket_of(values), minlength=BUCKETS).astype(np.int64))

    def __add__(self, other: "Histogram") -> "Histogram":
        return Histogram(self.counts + other.counts)

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    def percentile(self, percent: float) -> float:
        """The value that `percent` of the latencies do not exceed; 0.0 without any."""
        total = self.total
        if not total:
            return 0.0
        # The rank is rounded up, so p100 is the largest value and p0 the smallest.
        rank = max(1, int(np.ceil(percent / 100 * total - 1e-9)))
        return value_of(int(np.searchsorted(np.cumsum(self.counts), rank)))

    def curve(self) -> list[tuple[float, float]]:
        """Return (percent, value) for every non-empty bucket: the percentile plot."""
        total = self.total
        if not total:
            return []
        filled = np.flatnonzero(self.counts)
        shares = np.cumsum(self.counts)[filled] * (100 / total)
        return [
            (float(share), value_of(int(bucket)))
            for share, bucket in zip(shares, filled, strict=True)
        ]
