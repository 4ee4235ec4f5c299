"""The lease: which server should write, and which one takes over when it stops.

A lease gives liveness: it keeps two healthy servers from fencing each other in turns. Safety
depends neither on it nor on any clock; `object_log.py` ensures it. The epoch of a lease is the
number of its object, so each new one is greater than all before.

A standby never compares clocks with another machine. It takes over when the lease was released, or
when its heartbeat did not change for `ttl` on the standby's own monotonic clock.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Final

import msgspec

from borzoi.model.value import Value
from borzoi.objectstore.creating import Taken, create_once
from borzoi.objectstore.errors import Corrupt, Fenced, ObjectStoreError
from borzoi.objectstore.interface import ObjectStore
from borzoi.objectstore.listing import list_last

RENEWALS_PER_TTL: Final = 3


class Takeover(StrEnum):
    """When a lease that is still held may be taken."""

    SAME_ID = "same_id"  # at once by a server with the same id: a restarted one
    IMMEDIATE = "immediate"  # at once by any server
    WAIT = "wait"  # only after it expires


class Lease(Value, kw_only=True):
    """The content of a lease object."""

    epoch: int
    server_id: str
    host: str
    nonce: str
    acquired_at: int
    ttl_ms: int
    heartbeat: int = 0
    released: bool = False

    def encoded(self) -> bytes:
        return msgspec.json.encode(self)


class Candidate(Value):
    """A server that tries to get the lease."""

    server_id: str
    host: str
    nonce: str
    ttl_ms: int = 30_000
    takeover: Takeover = Takeover.SAME_ID


class Sighting(Value):
    """The lease as last seen, and since when its heartbeat has not changed."""

    lease: Lease
    since: float


def seen(before: Sighting | None, lease: Lease, *, now: float) -> Sighting:
    """Return the updated observation; `now` is monotonic."""
    if before is not None and before.lease == lease:
        return before
    return Sighting(lease, now)


def may_take(sighting: Sighting | None, candidate: Candidate, *, now: float) -> bool:
    """Whether the candidate may take the lease from its holder."""
    if sighting is None or sighting.lease.released:
        return True
    match candidate.takeover:
        case Takeover.IMMEDIATE:
            return True
        case Takeover.SAME_ID if sighting.lease.server_id == candidate.server_id:
            return True
    # The ttl of the holder, which determines how often it renews.
    return now - sighting.since >= sighting.lease.ttl_ms / 1000


def lease_key(prefix: str, epoch: int) -> str:
    return f"{prefix}{epoch:020}"


async def newest_lease(store: ObjectStore, prefix: str) -> Lease | None:
    found = await list_last(store, prefix)
    if found is None:
        return None
    data = (await store.get(found.key)).data
    try:
        return msgspec.json.decode(data, type=Lease)
    except msgspec.DecodeError as fault:
        raise Corrupt(f"it is not a lease: {fault}", op="get", key=found.key) from fault


async def acquire(
    store: ObjectStore,
    candidate: Candidate,
    *,
    prefix: str = "lease/",
    now_us: Callable[[], int] = lambda: time.time_ns() // 1000,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Lease:
    """Wait for the lease as long as it takes, and acquire it."""
    sighting: Sighting | None = None
    while True:
        holder = await newest_lease(store, prefix)
        if holder is not None:
            sighting = seen(sighting, holder, now=clock())
        if may_take(sighting, candidate, now=clock()):
            lease = Lease(
                epoch=holder.epoch + 1 if holder else 1,
                server_id=candidate.server_id,
                host=candidate.host,
                nonce=candidate.nonce,
                acquired_at=now_us(),
                ttl_ms=candidate.ttl_ms,
            )
            try:
                await create_once(
                    store, lease_key(prefix, lease.epoch), lease.encoded(), sleep=sleep
                )
            except Taken:
                continue  # another server was first and holds the lease now
            return lease
        await sleep(candidate.ttl_ms / 1000 / RENEWALS_PER_TTL)


class LeaseKeeper:
    """Renews a lease until it is released or lost."""

    def __init__(
        self,
        store: ObjectStore,
        lease: Lease,
        *,
        prefix: str = "lease/",
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._prefix = prefix
        self._clock = clock
        self._sleep = sleep
        self.lease = lease
        self._renewed_at = clock()

    @property
    def is_valid(self) -> bool:
        """Whether the lease was renewed within its ttl; otherwise sends are rejected."""
        return self._clock() - self._renewed_at < self.lease.ttl_ms / 1000

    async def renew(self) -> None:
        """Write a heartbeat; `Fenced` if another server has taken over."""
        key = lease_key(self._prefix, self.lease.epoch)
        asked_at = self._clock()
        newer = await self._store.list_page(self._prefix, start_after=key)
        if newer:
            raise Fenced(f"another server holds {newer[-1].key}", op="renew", key=key)
        renewed = msgspec.structs.replace(self.lease, heartbeat=self.lease.heartbeat + 1)
        await self._store.put(key, renewed.encoded())
        self.lease = renewed
        self._renewed_at = asked_at

    async def run(self) -> None:
        """Renew until fenced; failed requests are retried."""
        while True:
            await self._sleep(self.lease.ttl_ms / 1000 / RENEWALS_PER_TTL)
            try:
                await self.renew()
            except Fenced:
                raise
            except ObjectStoreError:
                continue  # `is_valid` reports when it has taken too long

    async def release(self) -> None:
        """Release the lease, so that the next server can start at once."""
        released = msgspec.structs.replace(self.lease, released=True)
        await self._store.put(lease_key(self._prefix, released.epoch), released.encoded())
        self.lease = released
