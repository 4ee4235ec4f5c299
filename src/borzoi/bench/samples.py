"""What actors measured: one sample per batch, as columns."""

from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from borzoi.bench.plan import Role
from borzoi.model.value import Value

SAMPLE_DTYPE: Final = np.dtype(
    [
        #: When the batch was done, since the common start.
        ("elapsed_ns", "<i8"),
        ("latency_ns", "<i8"),
        ("messages", "<i8"),
        ("payload_bytes", "<i8"),
        #: With message headers.
        ("total_bytes", "<i8"),
    ]
)


class Recorder(msgspec.Struct):
    """Collects the samples of one actor; a tuple a batch, made columns at the end."""

    rows: list[tuple[int, int, int, int, int]] = msgspec.field(default_factory=list)

    def columns(self) -> NDArray[np.void]:
        return np.array(self.rows, SAMPLE_DTYPE)


class Measured(Value):
    """One actor's run."""

    role: Role
    id: int
    samples: NDArray[np.void]
