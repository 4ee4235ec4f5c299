"""A rate limit for sending: at most so many messages a second.

Requests are kept to a tenth of a second of messages, so that a low rate is a steady flow and not
one large request now and then.
"""

import time
from collections.abc import Callable
from typing import Final

#: Requests a second at the limit, when messages are small.
STEPS_PER_SECOND: Final = 10


class SendRate:
    """Waits before each request until its messages keep to the rate.

    Time that passes without a request is not saved up: after a pause the rate still holds.
    """

    def __init__(
        self,
        messages_per_second: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = messages_per_second
        self._clock = clock
        self._sleep = sleep
        #: When the messages sent so far are paid for.
        self._free_at = clock()

    @property
    def request_max(self) -> int:
        """The largest number of messages that one request may have."""
        return max(1, self._rate // STEPS_PER_SECOND)

    def wait_for(self, count: int) -> None:
        """Return when a request of this many messages may be sent."""
        now = self._clock()
        if self._free_at > now:
            self._sleep(self._free_at - now)
        self._free_at = max(self._free_at, now) + count / self._rate
