"""Limits on connections, in total and per address. Pure counting.

IPv6 peers are counted by their /64 network, which is what a customer usually gets. Loopback
can be exempt from the second limit: proxies and local programs all share that address.
"""

from collections import Counter

from borzoi.security.throttle import origin_of

#: The network of ::1.
LOOPBACK_NETWORK = origin_of("::1")


class Admission:
    """Shared by the listeners of a server, so that the limits hold over all of them."""

    def __init__(self, most: int, most_per_host: int, *, spares_this_machine: bool = False) -> None:
        self._most = most
        self._most_per_host = most_per_host
        #: Whether only the total limit applies to connections over loopback.
        self._spares_this_machine = spares_this_machine
        self._hosts: Counter[str] = Counter()
        self._total = 0
        self.refused = 0

    def admit(self, host: str) -> bool:
        """Whether one more connection from the host may stay."""
        origin = origin_of(host)
        is_full = self._hosts[origin] >= self._most_per_host and not self._is_spared(origin)
        if is_full or self._total >= self._most:
            self.refused += 1
            return False
        self._hosts[origin] += 1
        self._total += 1
        return True

    def _is_spared(self, origin: str) -> bool:
        is_loopback = origin.startswith("127.") or origin == LOOPBACK_NETWORK
        return self._spares_this_machine and is_loopback

    def leave(self, host: str) -> None:
        """Count out an admitted connection that has ended."""
        origin = origin_of(host)
        self._hosts[origin] -= 1
        self._total -= 1
        if not self._hosts[origin]:
            del self._hosts[origin]
