"""The optional extension module that does in one pass over a batch what Python does in many.

`native` is the module, or None where it was not built or is switched off; everything works without
it, and gives the same bytes and the same faults. Its source is in `native/`, `hatch_build.py`
compiles it, and the variable BORZOI_ACCELERATOR chooses: `on` (the default), `portable` (without
vector instructions) or `off`.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

#: The ends of fewer than `Native.FEW` messages are a list; more are 32-bit integers one after
#: another, and the size that all messages have, or 0.
Found = list[int] | tuple[bytes, int]
Ends = list[int] | NDArray[np.uint32]


class Native(Protocol):
    """The functions of the module. Faulty batches are for Python to name."""

    INSTRUCTIONS: str
    FEW: int
    #: Received messages; see `borzoi.client.compact_messages`.
    Message: type[Any]

    def check(self, messages: memoryview, indexes: memoryview, count: int) -> Found | None:
        """The ends of a sound request; None for any other."""

    def split(self, payload: memoryview) -> tuple[bytes, int, Found] | None:
        """The constant bytes of a send, where its messages begin, and what `check` says of them;
        None for a payload that is faulty or very long."""

    def join(self, frame: memoryview, repeated: bytes, messages: bytearray, ends: list[int]) -> int:
        """Add the messages of a send to those of others, and where they end: a whole request whose
        bytes from its code to its count are `repeated`. How many bytes were added; 0 for any other
        request, and for a faulty one."""

    def walk(self, messages: memoryview) -> Found | None:
        """The same by what the headers say; None when they do not fit together."""

    def prefix(self, messages: memoryview) -> Found:
        """Ends of the undamaged messages with consecutive offsets at the start."""

    def stamp(
        self,
        messages: memoryview,
        ends: Ends,
        base_offset: int,
        timestamp: int,
        new_ids: Callable[[int], NDArray[np.uint8] | bytes],
        generator: "array[int] | None",
    ) -> None:
        """Number the messages in place, fill missing ids, and write the checksums. The generator
        is that of `FreshIds`."""

    def seal(self, messages: memoryview, ends: Ends) -> None:
        """Write the checksums."""

    def verify(self, messages: memoryview, ends: Ends) -> int | None:
        """The number of the first message whose checksum is wrong."""

    def entries(self, ends: Ends, relative_offset: int, position: int, timestamp: int) -> bytes:
        """The index entries of a batch."""

    def uuids(self, generator: "array[int]", count: int) -> bytes:
        """The next ids of a generator, which has that many left."""

    def checksum(self, hashed: bytes | bytearray | memoryview) -> int:
        """XXH3-64 of these bytes."""

    def count(self, messages: memoryview) -> int | None:
        """How many messages fill the buffer, by their headers; None when they do not."""

    def messages(self, messages: memoryview, partition: int) -> Iterator[Any]:
        """A `Message` for each message of an answer, with copies of its bytes."""

    def equal_size(self, payloads: Sequence[object]) -> int | None:
        """The size that all payloads of a list have; None when they differ, one is not bytes, or
        it is no list."""

    def json_lines(
        self, messages: memoryview, starts: NDArray[np.int64], partition: int
    ) -> bytearray | None:
        """A line of JSON for each message, as `borzoi read` writes it; None where that takes more
        than plain payloads, which is for Python."""

    def decimal_ids(self, ids: NDArray[Any] | bytes) -> tuple[bytearray, bytearray]:
        """Ids of 16 bytes as decimal numbers, one after another, and their bounds as 32-bit
        integers, which is how Arrow lays out texts."""

    def json_messages(
        self, lines: bytes, name: bytes | None, origin_timestamp: int
    ) -> tuple[bytearray, bytearray] | None:
        """Messages of a request for lines of JSON, or for this field of each, and where they end,
        as 64-bit integers; None where that takes more than plain lines, which is for Python."""


#: What a module must have; one from before an update lacks the newer ones,
FUNCTIONS: Final = tuple(name for name in vars(Native) if name[0] != "_")
#: or has another number here, because functions changed what they take or return.
INTERFACE: Final = 1


class Accelerator(NamedTuple):
    """What was found, and a sentence about it for people."""

    native: Native | None
    description: str


def load(name: str = "borzoi.records._native") -> Accelerator:
    """The module, or why the server runs without it."""
    try:
        found = cast(Native, import_module(name))
    except ModuleNotFoundError:
        reason = "it was not built; install a C compiler and install borzoi again"
    except ImportError as refused:
        reason = str(refused)
    else:
        is_whole = all(hasattr(found, function) for function in FUNCTIONS)
        if is_whole and getattr(found, "INTERFACE", 0) == INTERFACE:
            return Accelerator(found, f"on, with {found.INSTRUCTIONS} instructions")
        reason = "it was built from older sources; install borzoi again"
    return Accelerator(None, f"off: {reason}")


ACCELERATOR: Final = load()
native: Final = ACCELERATOR.native
