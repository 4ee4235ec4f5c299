"""What the links do to packets."""

from functools import partial
from random import Random

import pytest

from borzoi.simulator.events import EventQueue
from borzoi.simulator.network import QUIET, Network, NetworkFaults


class Wire:
    """A network of three endpoints that remembers what arrived when."""

    def __init__(self, faults: NetworkFaults = QUIET, seed: int = 1) -> None:
        self.events = EventQueue()
        self.got: list[tuple[int, int, int, object]] = []
        self.network = Network(self.events, Random(seed), faults, 3, lambda frame: frame % 10)
        self.network.receivers = [partial(self._take, target) for target in range(3)]

    def _take(self, target, source, frame):
        self.got.append((self.events.now, source, target, frame))

    def run(self, ticks=20_000):
        while (tick := self.events.next_tick()) is not None and tick <= ticks:
            self.events.run_tick(tick)
        return [frame for _, _, _, frame in self.got]


def test_a_quiet_network_keeps_order_and_loses_nothing():
    wire = Wire()
    for frame in range(100):
        wire.network.send(0, 1, frame)
    assert wire.run() == list(range(100))


def test_without_fifo_packets_overtake_each_other():
    wire = Wire(NetworkFaults(delay_mean=10.0, capacity=1000))
    for frame in range(100):
        wire.network.send(0, 1, frame)
    got = wire.run()
    assert got != list(range(100))
    assert sorted(got) == list(range(100))


def test_loss_takes_its_share():
    wire = Wire(NetworkFaults(loss=0.3, capacity=10_000))
    for frame in range(2000):
        wire.network.send(0, 1, frame)
    assert 1300 < len(wire.run()) < 1500
    assert wire.network.counters.lost == 2000 - len(wire.got)


def test_a_repeated_packet_arrives_long_after_the_first():
    wire = Wire(NetworkFaults(delay_mean=0.0, duplication=1.0, duplicate_delay=1000))
    wire.network.send(0, 1, 7)
    assert wire.run() == [7, 7]
    assert wire.got[1][0] > wire.got[0][0]


def test_a_full_link_evicts_one_of_its_packets():
    wire = Wire(NetworkFaults(delay_min=5, capacity=2))
    for frame in range(10):
        wire.network.send(0, 1, frame)
    assert len(wire.run()) == 2
    assert wire.network.counters.evicted == 8


def test_a_clogged_link_delivers_later():
    wire = Wire(NetworkFaults(delay_mean=0.0))
    wire.network.clog(0, 1, 300)
    wire.network.send(0, 1, 1)
    wire.network.send(0, 2, 2)
    wire.run()
    assert [(tick, frame) for tick, _, _, frame in wire.got] == [(1, 2), (300, 1)]
    wire.network.unclog()


@pytest.mark.parametrize("both_ways", [True, False])
def test_a_cut_stops_packets_at_both_ends(both_ways):
    wire = Wire(NetworkFaults(delay_min=3, delay_mean=0.0))
    wire.network.send(0, 1, 1)
    wire.network.split([0], [1, 2], both_ways=both_ways)
    wire.network.send(0, 2, 2)
    wire.network.send(2, 0, 3)
    assert wire.run() == ([] if both_ways else [3])
    assert wire.network.is_cut(0, 1)
    wire.network.heal()
    wire.network.send(0, 1, 4)
    assert wire.run()[-1] == 4


def test_a_filter_drops_one_command_only():
    wire = Wire()
    wire.network.filter(0, 1, [2])
    for frame in (1, 2, 3, 12):
        wire.network.send(0, 1, frame)
        wire.network.send(1, 0, frame)
    wire.run()
    assert [frame for _, source, _, frame in wire.got if source == 0] == [1, 3]
    assert [frame for _, source, _, frame in wire.got if source == 1] == [1, 2, 3, 12]


def test_packets_to_a_former_life_are_lost_with_the_connection():
    wire = Wire(NetworkFaults(delay_min=5))
    wire.network.send(0, 1, 1)
    wire.network.restarted(1)
    wire.network.send(0, 1, 2)
    assert wire.run() == [2]
    assert wire.network.counters.stale == 1


def test_datagrams_reach_the_next_life_unless_its_disk_was_lost():
    wire = Wire(NetworkFaults(delay_min=5, datagrams=True))
    wire.network.send(0, 1, 1)
    wire.network.restarted(1)
    wire.network.send(0, 2, 2)
    wire.network.restarted(2, wiped=True)
    wire.network.send(0, 2, 3)
    assert sorted(wire.run()) == [1, 3]


def test_what_a_lost_disk_promised_is_still_on_its_way():
    """Its peers cannot know that the sender forgot it (P3)."""
    wire = Wire(NetworkFaults(delay_min=5))
    wire.network.send(2, 0, 1)
    wire.network.restarted(2, wiped=True)
    wire.network.send(2, 0, 2)
    assert wire.run() == [1, 2]


def test_the_digest_tells_what_arrived_where_and_when():
    digests = set()
    for sent in ((0, 1, 7), (0, 1, 8), (0, 2, 7), (2, 1, 7)):
        wire = Wire(NetworkFaults(delay_mean=0.0))
        wire.network.send(*sent)
        wire.run()
        assert wire.network.arrived[sent[2]] == 1
        digests.add(wire.network.digest)
    late = Wire(NetworkFaults(delay_min=3, delay_mean=0.0))
    late.network.send(0, 1, 7)
    late.run()
    assert len(digests | {late.network.digest}) == 5
