"""One field of every message of a batch at once, as a numpy array.

Messages of one size make a strided view: reading and writing it is one pass of 1-3 µs for 1000
messages. Otherwise the field is gathered from, or scattered to, the start of each message through
a view whose items overlap (one item per byte of the buffer): 5-8 µs.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]


def equal_column(messages: memoryview, size: int, at: int, kind: np.dtype[Any]) -> Column:
    """The field at byte `at` of messages that all have the same size: a view, no copy."""
    return np.ndarray((len(messages) // size,), kind, messages, at, (size,))


def gathered_column(
    messages: memoryview, starts: NDArray[np.int64], at: int, kind: np.dtype[Any]
) -> Column:
    """The field at byte `at` of the messages that start there: a copy."""
    return _every_byte(messages, at, kind)[starts]


def scatter_column(
    messages: memoryview,
    starts: NDArray[np.int64],
    at: int,
    kind: np.dtype[Any],
    values: Column | int,
) -> None:
    _every_byte(messages, at, kind)[starts] = values


def _every_byte(messages: memoryview, at: int, kind: np.dtype[Any]) -> Column:
    return np.ndarray((len(messages) - at - kind.itemsize + 1,), kind, messages, at, (1,))
