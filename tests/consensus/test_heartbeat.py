"""Leases, linearizable reads, and checkpoints compared through pings (4.8, 4.12)."""

import pytest

from borzoi.consensus import heartbeat
from borzoi.consensus.config import PlantedBugs
from borzoi.consensus.effects import Fatal, GroupCheckpoints, ReadReady, Send
from borzoi.consensus.messages import Ping, Pong, RequestStartView, StartView
from borzoi.testing.consensus_cluster import ScriptedCluster


def test_a_primary_in_contact_with_a_quorum_may_answer_reads():
    cluster = ScriptedCluster()
    primary = cluster.elect()
    cluster.tick(40)
    assert primary.may_read(cluster.now_us)
    followers = [r for r in cluster.replicas.values() if r is not primary]
    assert not any(replica.may_read(cluster.now_us) for replica in followers)


@pytest.mark.parametrize("eternal", [False, True])
def test_a_lease_lapses_by_the_clock_even_if_no_tick_was_seen(eternal):
    """A stopped process wakes up with its tick counter unchanged."""
    cluster = ScriptedCluster(bugs=PlantedBugs(lease_never_lapses=eternal))
    primary = cluster.elect()
    cluster.tick(40)
    assert primary.may_read(cluster.now_us + 20_000_000) is eternal


def test_an_isolated_primary_stops_answering_before_another_can_exist():
    cluster = ScriptedCluster()
    old = cluster.elect()
    cluster.isolate(old.replica_id)
    for _ in range(400):
        cluster.tick(1)
        others = [r for r in cluster.replicas.values() if r is not old]
        if any(replica.is_primary for replica in others):
            assert not old.may_read(cluster.now_us)
    assert not old.may_read(cluster.now_us)


def test_a_linearizable_read_waits_for_answers_sent_after_it():
    cluster = ScriptedCluster()
    primary = cluster.elect()
    cluster.isolate(primary.replica_id)
    assert primary.on_linearizable_read(77)
    cluster.execute(primary.replica_id)
    cluster.settle()
    assert not cluster.effects_of(ReadReady)
    cluster.heal()
    assert primary.on_linearizable_read(78)
    cluster.execute(primary.replica_id)
    cluster.settle()
    assert cluster.effects_of(ReadReady) == [ReadReady(77), ReadReady(78)]
    other = next(r for r in cluster.replicas.values() if r is not primary)
    assert not other.on_linearizable_read(79)


def test_a_single_replica_reads_at_once():
    cluster = ScriptedCluster(1)
    primary = cluster.elect()
    assert primary.may_read(cluster.now_us)
    assert primary.on_linearizable_read(5)
    assert ReadReady(5) in primary.take_effects()


def test_a_data_group_leaves_reads_to_its_node():
    cluster = ScriptedCluster(group=1)
    for replica in range(3):
        cluster.replicas[replica].on_enter_view(3, 0)
        cluster.execute(replica)
    cluster.settle()
    primary = cluster.primary()
    assert not primary.may_read(cluster.now_us)
    assert not primary.on_linearizable_read(1)
    assert primary.serves_reads(3)
    assert not primary.serves_reads(4)


def test_a_checkpoint_that_differs_stops_whoever_notices():
    cluster = ScriptedCluster(checkpoint_interval=4)
    cluster.elect()
    for number in range(8):
        cluster.request(b"x", number=number)
    cluster.tick(30)
    assert not cluster.effects_of(Fatal)
    victim = cluster.replicas[0]
    newest = max(victim.checkpoint_checksums)
    victim.checkpoint_checksums[newest] = b"something else!!"
    cluster.tick(30)
    assert cluster.effects_of(Fatal)


def test_checkpoints_of_data_groups_travel_with_the_pings():
    cluster = ScriptedCluster()
    primary = cluster.elect()
    primary.on_position(2, primary.view, 9, 8, b"c" * 16)
    cluster.tick(40)
    told = [e for e in cluster.effects_of(GroupCheckpoints) if isinstance(e, GroupCheckpoints)]
    assert told[-1].checkpoints == ((2, 8, b"c" * 16),)
    data = ScriptedCluster(group=2).replicas[1]
    data.checkpoint_checksums[8] = b"d" * 16
    data.on_peer_checkpoint(8, b"c" * 16)
    assert data.stopped


def test_a_ping_of_a_newer_primary_is_followed_by_a_probe():
    cluster = ScriptedCluster()
    old = cluster.elect()
    cluster.isolate(old.replica_id)
    cluster.tick(400)
    new = cluster.primary()
    cluster.drop = lambda source, target, header: (
        target == old.replica_id and not isinstance(header, Ping | StartView)
    )
    cluster.tick(60)
    assert old.view == new.view


def test_a_replayed_ping_is_answered_but_renews_nothing():
    cluster = ScriptedCluster()
    primary = cluster.elect()
    cluster.tick(30)
    backup = next(r for r in cluster.replicas.values() if r is not primary)
    primary.take_effects()
    heartbeat.ping(primary)
    (ping,) = {e.header for e in primary.take_effects() if isinstance(e, Send)}
    backup.take_effects()
    backup.on_frame(ping, b"")
    backup.on_frame(ping, b"")
    pongs = [e.header for e in backup.take_effects() if isinstance(e, Send)]
    assert len(pongs) == 2
    for pong in pongs:
        primary.on_frame(pong, b"")
    primary.on_frame(pongs[0]._replace(status=1), b"")  # type: ignore[call-arg]
    assert primary.contact_us[backup.replica_id] == primary.ping_monotonic


def test_an_empty_replica_answers_no_ping():
    cluster = ScriptedCluster(formatted=False)
    live = cluster.replicas[0]
    live.take_effects()
    heartbeat.on_ping(live, Ping(*live.canon[0][:6], 1, 1, 0, 0, 0, 0, 0), b"")
    assert live.take_effects() == []


def test_a_read_waits_until_everything_committed_is_applied():
    cluster = ScriptedCluster()
    primary = cluster.elect()
    primary.commit_max += 1
    assert not primary.may_read(cluster.now_us)
    primary.on_linearizable_read(1)
    cluster.execute(primary.replica_id)
    cluster.settle()
    assert not cluster.effects_of(ReadReady)


def test_a_ping_alone_tells_of_a_newer_view():
    cluster = ScriptedCluster()
    primary = cluster.elect()
    backup = next(r for r in cluster.replicas.values() if r is not primary)
    backup.take_effects()
    newer = primary.view + 3
    head = primary.canon[1]
    ping = Ping(*head[:4], newer, 1, 1, newer % 3, 10**12, 0, 0, newer, 0)
    backup.on_frame(ping, b"")
    kinds = [type(e.header) for e in backup.take_effects() if isinstance(e, Send)]
    assert kinds == [RequestStartView, Pong]


def test_clock_offsets_of_peers_are_measured():
    cluster = ScriptedCluster()
    primary = cluster.elect()
    assert primary.clock_offsets_us[primary.replica_id] is None
    (other, _) = (r for r in cluster.replicas.values() if r is not primary)
    head = primary.canon[1]
    primary.monotonic_us, primary.wall_us = 5_000, 1_000_000
    pong = Pong(*head[:4], 0, 1, 2, other.replica_id, 3_000, 1_500_000, 0, 0, 1)
    primary.on_frame(pong, b"")
    assert primary.clock_offsets_us[other.replica_id] == 501_000
