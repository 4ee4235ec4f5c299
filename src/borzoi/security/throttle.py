"""How long an address that gave wrong passwords has to wait before it may try again.

The first few failures are free, then the delay doubles up to a maximum, and after a quiet period
the count resets. Only the address is slowed down, never the account, so an attacker cannot lock a
user out. Pure: the time is an argument, and the number of remembered addresses has a bound.
"""

from collections import OrderedDict
from ipaddress import IPv6Address, IPv6Network, ip_address

import msgspec

from borzoi.model.value import Value

SECOND_US = 1_000_000


class ThrottleSettings(Value):
    """Times in µs."""

    free_failures: int = 3
    first_wait: int = SECOND_US // 4
    longest_wait: int = 8 * SECOND_US
    forgotten_after: int = 300 * SECOND_US
    addresses_max: int = 10_000


class _Record(msgspec.Struct):
    failures: int
    last_failure_at: int


class Throttle:
    """Counts wrong passwords by address; evicts the address that failed longest ago."""

    __slots__ = ("_records", "_settings")

    def __init__(self, settings: ThrottleSettings | None = None) -> None:
        self._settings = ThrottleSettings() if settings is None else settings
        self._records: OrderedDict[str, _Record] = OrderedDict()

    def __len__(self) -> int:
        return len(self._records)

    def wait(self, address: str, *, now: int) -> int:
        """Return the µs until this address may try again; 0 if it may now."""
        record = self._records.get(origin_of(address))
        if record is None or self._is_forgotten(record, now):
            return 0
        return max(0, record.last_failure_at + self._penalty(record.failures) - now)

    def failed(self, address: str, *, now: int) -> None:
        """Record a wrong password from this address."""
        origin = origin_of(address)
        record = self._records.pop(origin, None)
        if record is None or self._is_forgotten(record, now):
            record = _Record(0, now)
        record.failures += 1
        record.last_failure_at = now
        self._records[origin] = record
        self._drop_forgotten(now)

    def succeeded(self, address: str) -> None:
        """Record a correct password: clear the failures of this address."""
        self._records.pop(origin_of(address), None)

    def _penalty(self, failures: int) -> int:
        excess = failures - self._settings.free_failures
        if excess <= 0:
            return 0
        # Bound the exponent: a million failures must not create a million-bit number.
        return min(self._settings.longest_wait, self._settings.first_wait << min(excess - 1, 32))

    def _is_forgotten(self, record: _Record, now: int) -> bool:
        return now - record.last_failure_at >= self._settings.forgotten_after

    def _drop_forgotten(self, now: int) -> None:
        while len(self._records) > self._settings.addresses_max or self._is_forgotten(
            next(iter(self._records.values())), now
        ):
            self._records.popitem(last=False)


def origin_of(address: str) -> str:
    """The peer that attempts are counted for: the host without its port, for IPv6 its /64 network.

    A customer usually gets a whole /64, so counting single IPv6 addresses would be useless.
    """
    host = address
    if address.startswith("["):
        host = address[1:].partition("]")[0]
    elif address.count(":") == 1:
        host = address.partition(":")[0]
    try:
        ip = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(ip, IPv6Address):
        if ip.ipv4_mapped is not None:
            return str(ip.ipv4_mapped)
        return str(IPv6Network((ip, 64), strict=False))
    return str(ip)
