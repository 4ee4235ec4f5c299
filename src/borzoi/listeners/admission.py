"""How many connections there may be, in all and from one address. Pure counting.

An address is whom to hold responsible: IPv6 peers are counted by their /64 network, because one
customer usually gets a whole one.
"""

from collections import Counter

from borzoi.security.throttle import origin_of


class Admission:
    """Shared by the listeners of a server, so that the bounds hold over all of them."""

    def __init__(self, most: int, most_per_host: int) -> None:
        self._most = most
        self._most_per_host = most_per_host
        self._hosts: Counter[str] = Counter()
        self._total = 0
        self.refused = 0

    def admit(self, host: str) -> bool:
        """Whether one more connection from the host may stay."""
        origin = origin_of(host)
        if self._total >= self._most or self._hosts[origin] >= self._most_per_host:
            self.refused += 1
            return False
        self._hosts[origin] += 1
        self._total += 1
        return True

    def leave(self, host: str) -> None:
        """A connection that was admitted has ended."""
        origin = origin_of(host)
        self._hosts[origin] -= 1
        self._total -= 1
        if not self._hosts[origin]:
            del self._hosts[origin]
