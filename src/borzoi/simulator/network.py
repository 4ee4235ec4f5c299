"""The network: directed links that delay, lose, repeat, reorder, evict, clog, and can be cut.

Endpoints are numbered: replicas first, then clients. A packet belongs to a connection, that is to
one life of its sender and one life of its receiver, as over TCP; in datagram seeds it survives a
restart of the receiver. Never does a packet survive the sender's disk being wiped: the handshake
refuses the former incarnation.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from math import log
from random import Random
from typing import Any, Final, NamedTuple

from borzoi.model.value import Value
from borzoi.simulator.events import EventQueue


class NetworkFaults(Value):
    """How bad the links are; drawn once per seed."""

    delay_min: int = 0
    delay_mean: float = 1.0
    fifo: bool = False
    loss: float = 0.0
    duplication: float = 0.0
    duplicate_delay: int = 0
    capacity: int = 64
    clogging: float = 0.0
    clog_ticks_mean: int = 0
    datagrams: bool = False
    # Share of frames that lose a bit on the way; their checksum gives them away.
    corruption: float = 0.0


MIX: Final = 0x9E3779B97F4A7C15
MASK: Final = (1 << 64) - 1
QUIET = NetworkFaults(delay_min=0, delay_mean=1.0, fifo=True, capacity=1 << 20)


class Corrupted(NamedTuple):
    """A frame with one wrong bit, at this share of its length."""

    frame: Any
    spot: float


class Link:
    """One direction between two endpoints."""

    __slots__ = (
        "busy_until",
        "clogged_until",
        "flying",
        "is_cut",
        "label",
        "sent",
        "source",
        "target",
    )

    def __init__(self, source: int, target: int) -> None:
        self.source = source
        self.target = target
        # Its part of an arrival in the digest, beside the tick and the command.
        self.label = source << 16 | target << 8
        self.is_cut = False
        self.busy_until = 0
        self.clogged_until = 0
        # Keys of the packets on their way, in the order in which they were sent.
        self.flying: dict[int, bool] = {}
        self.sent = 0


# Link, key, frame, and the life of every endpoint when it was sent.
# A plain tuple: one is made for every frame, and none of it changes on the way.
Packet = tuple[Link, int, Any, tuple[int, ...]]


class NetworkCounters:
    __slots__ = (
        "blocked",
        "clogs",
        "corrupted",
        "duplicated",
        "evicted",
        "filtered",
        "lost",
        "stale",
    )

    def __init__(self) -> None:
        self.lost = self.duplicated = self.evicted = 0
        self.blocked = self.filtered = self.stale = self.clogs = self.corrupted = 0


class Network:
    """Carries frames between endpoints, and keeps a digest of what arrived when and where.

    `receivers[target](source, frame)` is called on arrival; the endpoints put themselves there.
    """

    def __init__(
        self,
        events: EventQueue,
        random: Random,
        faults: NetworkFaults,
        endpoints: int,
        command_of: Callable[[Any], int],
        digest: int = 0,
    ) -> None:
        self.receivers: list[Callable[[int, Any], None]] = []
        # Arrivals by command.
        self.arrived = [0] * 256
        self.digest = digest & MASK
        self.faults = faults
        self.endpoints = endpoints
        self.counters = NetworkCounters()
        self._events = events
        # Bound once: each of them is called for every frame.
        self._at = events.at
        self._chance = random.random
        self._arriving = self._arrive
        self._command_of = command_of
        everyone = range(endpoints)
        self._links = [[Link(source, target) for target in everyone] for source in everyone]
        self._filters: dict[Link, frozenset[int]] = {}
        # Replaced at every restart: the same object means that no restart came between.
        self._lives = (0,) * endpoints
        # Whose disk was lost: what was sent to a former life does not reach the next one.
        self._wiped = [False] * endpoints

    # -- lives -------------------------------------------------------------------------------------

    def restarted(self, endpoint: int, *, wiped: bool = False) -> None:
        lives = self._lives
        self._lives = (*lives[:endpoint], lives[endpoint] + 1, *lives[endpoint + 1 :])
        if wiped:
            self._wiped[endpoint] = True

    # -- carrying ----------------------------------------------------------------------------------

    def send(self, source: int, target: int, frame: Any) -> None:
        link = self._links[source][target]
        if link.is_cut:
            self.counters.blocked += 1
            return
        if self._filters and self._command_of(frame) in self._filters.get(link, ()):
            self.counters.filtered += 1
            return
        faults = self.faults
        chance = self._chance
        if faults.loss and chance() < faults.loss:
            self.counters.lost += 1
            return
        if faults.corruption and chance() < faults.corruption:
            self.counters.corrupted += 1
            frame = Corrupted(frame, chance())
        self._schedule(link, frame, 0)
        if faults.duplication and chance() < faults.duplication:
            self.counters.duplicated += 1
            self._schedule(link, frame, int(chance() * faults.duplicate_delay))

    def _schedule(self, link: Link, frame: Any, extra: int) -> None:
        faults = self.faults
        arrival = self._events.now + faults.delay_min + extra
        if faults.delay_mean:
            # As `expovariate(1.0)`, without the call.
            chance = self._chance
            arrival += int(-log(1.0 - chance()) * faults.delay_mean)
        if arrival < link.clogged_until:
            arrival = link.clogged_until
        if faults.fifo and not extra:
            if arrival < link.busy_until:
                arrival = link.busy_until
            link.busy_until = arrival
        link.sent = key = link.sent + 1
        flying = link.flying
        if len(flying) >= faults.capacity:
            self._evict(flying)
        flying[key] = True
        at = self._at
        at(arrival, self._arriving, (link, key, frame, self._lives))

    def _evict(self, flying: dict[int, bool]) -> None:
        keys = list(flying)
        del flying[keys[int(self._chance() * len(keys))]]
        self.counters.evicted += 1

    def _arrive(self, packet: Packet) -> None:
        link, key, frame, lives = packet
        if not link.flying.pop(key, False):
            return  # evicted
        if link.is_cut:
            self.counters.blocked += 1
        elif lives is not self._lives and self._is_stale(link.target, lives):
            self.counters.stale += 1
        else:
            # What replicas send each other at fast fidelity is by far the most.
            command = frame[0].command if type(frame) is tuple else self._command_of(frame)
            self.arrived[command] += 1
            arrival = (self._events.now << 24) + link.label + command
            self.digest = ((self.digest ^ arrival) * MIX) & MASK
            self.receivers[link.target](link.source, frame)

    def _is_stale(self, target: int, lives: tuple[int, ...]) -> bool:
        return lives[target] != self._lives[target] and (
            not self.faults.datagrams or self._wiped[target]
        )

    # -- disturbing --------------------------------------------------------------------------------

    def clog(self, source: int, target: int, ticks: int) -> None:
        link = self._links[source][target]
        link.clogged_until = max(link.clogged_until, self._events.now + ticks)
        self.counters.clogs += 1

    def cut(self, source: int, target: int) -> None:
        self._links[source][target].is_cut = True

    def split(self, left: Iterable[int], right: Iterable[int], *, both_ways: bool = True) -> None:
        others = list(right)
        for one in left:
            for other in others:
                self.cut(one, other)
                if both_ways:
                    self.cut(other, one)

    def filter(self, source: int, target: int, commands: Iterable[int]) -> None:
        """Drops only these commands on this link, until `heal`."""
        link = self._links[source][target]
        self._filters[link] = self._filters.get(link, frozenset()) | frozenset(commands)

    def heal(self) -> None:
        """Removes cuts and filters; the links stay as good or bad as they were drawn."""
        for link in self._all_links():
            link.is_cut = False
        self._filters = {}

    def unclog(self) -> None:
        for link in self._all_links():
            link.clogged_until = 0

    def is_cut(self, source: int, target: int) -> bool:
        return self._links[source][target].is_cut

    def _all_links(self) -> Iterator[Link]:
        return chain.from_iterable(self._links)
