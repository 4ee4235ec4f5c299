"""When a rate-limited actor sends. Pure: times in nanoseconds are arguments.

Each batch has an intended start, which depends on the rate alone. A batch that starts late because
the server was slow is measured from its intended start, so a stall shows in every latency it
delayed, not only in one (coordinated omission).
"""

import msgspec


class Pacer(msgspec.Struct):
    """The intended start times of one actor's batches; the bucket starts empty."""

    #: Payload bytes a second; 0 for no limit.
    rate: float
    began_ns: int
    _owed_bytes: float = 0.0

    def intended(self, now_ns: int, batch_bytes: int) -> int:
        """Return when the next batch of this size should start; now, without a limit."""
        if not self.rate:
            return now_ns
        self._owed_bytes += batch_bytes
        return self.began_ns + int(self._owed_bytes / self.rate * 1e9)
