"""Leases, linearizable reads, and checkpoints compared through pings (K1, L1)."""

import msgspec
import pytest
from tests.support.consensus_cluster import ScriptedCluster, elected
from tests.support.planted_bugs import plant_bugs

from borzoi.consensus import heartbeat
from borzoi.consensus.effects import (
    ClusterRelease,
    Fatal,
    GroupCheckpoints,
    Leadership,
    ReadReady,
    Refusal,
    Respond,
    RoleChanged,
    Send,
)
from borzoi.consensus.messages import Operation, Ping, Pong, RequestStartView, StartView
from borzoi.consensus.state import Status


def test_a_primary_in_contact_with_a_quorum_may_answer_reads():
    cluster, primary = elected()
    cluster.tick(40)
    assert primary.may_read(cluster.now_us)
    followers = [r for r in cluster.replicas.values() if r is not primary]
    assert not any(replica.may_read(cluster.now_us) for replica in followers)


@pytest.mark.parametrize("eternal", [False, True])
def test_a_lease_lapses_by_the_clock_even_if_no_tick_was_seen(eternal):
    """A stopped process wakes up with its tick counter unchanged."""
    plant_bugs(lease_never_lapses=eternal)
    cluster, primary = elected()
    cluster.tick(40)
    assert primary.may_read(cluster.now_us + 20_000_000) is eternal


def test_an_isolated_primary_stops_answering_before_another_can_exist():
    cluster, old = elected()
    cluster.isolate(old.replica_id)
    for _ in range(400):
        cluster.tick(1)
        others = [r for r in cluster.replicas.values() if r is not old]
        if any(replica.is_primary for replica in others):
            assert not old.may_read(cluster.now_us)
    assert not old.may_read(cluster.now_us)


def test_a_linearizable_read_waits_for_answers_sent_after_it():
    cluster, primary = elected()
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
    cluster, primary = elected(1)
    assert primary.may_read(cluster.now_us)
    assert primary.on_linearizable_read(5)
    assert ReadReady(5) in primary.take_effects()


def test_a_data_group_leaves_reads_to_its_node():
    cluster = ScriptedCluster(group=1)
    cluster.enter_view(3)
    primary = cluster.primary()
    assert not primary.may_read(cluster.now_us)
    assert not primary.on_linearizable_read(1)
    assert primary.serves_reads(3)
    assert not primary.serves_reads(4)


def test_a_replica_that_sees_a_different_checkpoint_stops():
    cluster, _ = elected(checkpoint_interval=4)
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
    cluster, primary = elected()
    primary.on_position(2, primary.view, 9, 8, b"c" * 16)
    cluster.tick(40)
    told = [e for e in cluster.effects_of(GroupCheckpoints) if isinstance(e, GroupCheckpoints)]
    assert told[-1].checkpoints == ((2, 8, b"c" * 16),)
    data = ScriptedCluster(group=2).replicas[1]
    data.checkpoint_checksums[8] = b"d" * 16
    data.on_peer_checkpoint(8, b"c" * 16)
    assert data.stopped


def test_a_ping_of_a_newer_primary_is_followed_by_a_probe():
    cluster, old = elected()
    cluster.isolate(old.replica_id)
    cluster.tick(400)
    new = cluster.primary()
    cluster.drop = lambda source, target, header: (
        target == old.replica_id and not isinstance(header, Ping | StartView)
    )
    cluster.tick(60)
    assert old.view == new.view


def test_a_replayed_ping_is_answered_but_renews_nothing():
    cluster, primary = elected()
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
    live.on_frame(Ping(*live.canon[0][:6], 1, 1, 0, 0, 0, 0, 0), b"")
    assert live.take_effects() == []


def test_a_read_waits_until_everything_committed_is_applied():
    cluster, primary = elected()
    primary.commit_max += 1
    assert not primary.may_read(cluster.now_us)
    primary.on_linearizable_read(1)
    cluster.execute(primary.replica_id)
    cluster.settle()
    assert not cluster.effects_of(ReadReady)


def test_a_ping_alone_tells_of_a_newer_view():
    cluster, primary = elected()
    backup = next(r for r in cluster.replicas.values() if r is not primary)
    backup.take_effects()
    newer = primary.view + 3
    head = primary.canon[1]
    ping = Ping(*head[:4], newer, 1, 1, newer % 3, 10**12, 0, 0, newer, 0)
    backup.on_frame(ping, b"")
    kinds = [type(e.header) for e in backup.take_effects() if isinstance(e, Send)]
    assert kinds == [RequestStartView, Pong]


def test_clock_offsets_of_peers_are_measured():
    cluster, primary = elected()
    assert primary.clock_offsets_us[primary.replica_id] is None
    (other, _) = (r for r in cluster.replicas.values() if r is not primary)
    head = primary.canon[1]
    primary.monotonic_us, primary.wall_us = 5_000, 1_000_000
    primary.ping_monotonic = 3_000
    pong = Pong(*head[:4], 0, 1, 2, other.replica_id, 3_000, 1_500_000, 0, 0, 1)
    primary.on_frame(pong, b"")
    assert primary.clock_offsets_us[other.replica_id] == 501_000


# -- clocks (T2) ----------------------------------------------------------------------------------

OFF_US = 30_000_000


class SkewedCluster(ScriptedCluster):
    """Wall clocks that are off by a fixed amount each."""

    skews: dict[int, int]

    def tick(self, count, *, only=None):
        for _ in range(count):
            self.now_us += 10_000
            for replica in sorted(self.replicas):
                live = self.replicas[replica]
                live.monotonic_us = self.now_us
                live.wall_us = self.now_us + self.skews.get(replica, 0)
                live.tick()
                self.execute(replica)
            self.settle()


def skewed(skews: dict[int, int]) -> SkewedCluster:
    cluster = SkewedCluster()
    cluster.skews = skews
    return cluster


def test_a_primary_whose_clock_is_off_hands_over():
    cluster = skewed({})
    old = cluster.elect()
    cluster.tick(30)
    assert cluster.primary() is old
    assert old.clock_error_us == 0
    cluster.skews = {old.replica_id: OFF_US}
    cluster.tick(30)
    assert old.clock_error_us == OFF_US
    assert not old.is_primary
    assert cluster.elect() is not old
    # A replica whose clock is wrong is skipped from now on.
    cluster.tick(1_000)
    assert cluster.primary() is not old


def test_a_pong_that_shows_the_own_clock_off_ends_the_lead_at_once():
    cluster = skewed({})
    primary = cluster.elect()
    cluster.tick(30)
    peer = primary.others[0]
    primary.monotonic_us, primary.wall_us = cluster.now_us, cluster.now_us + OFF_US
    pong = Pong(
        *primary.canon[1][:4], primary.view, 1, 2, peer, primary.ping_monotonic, cluster.now_us,
        0, 0, 0,
    )  # fmt: skip
    primary.on_frame(pong, b"")
    assert primary.status == Status.VIEW_CHANGE


def test_who_is_off_does_not_begin_a_view():
    cluster = skewed({})
    first = cluster.elect()
    cluster.tick(30)
    off = (first.replica_id + 1) % 3
    cluster.skews = {off: -OFF_US}
    cluster.tick(30)
    first.step_down()
    cluster.execute(first.replica_id)
    cluster.tick(5)
    assert cluster.elect().replica_id == (off + 1) % 3
    assert not any(
        effect.leadership is Leadership.LEADER
        for replica, effect in cluster.outputs
        if replica == off and isinstance(effect, RoleChanged)
    )


def test_a_clock_that_was_just_set_stamps_nothing():
    cluster = skewed({})
    primary = cluster.elect()
    cluster.tick(30)
    primary.wall_us += OFF_US
    primary.on_request(bytes(16), 1, Operation.CREATE_STREAM.value, b"x")
    refused = [effect for effect in primary.take_effects() if isinstance(effect, Respond)]
    assert [effect.status for effect in refused] == [Refusal.NOT_PRIMARY]


def test_a_clock_that_was_set_a_little_goes_on():
    cluster = skewed({})
    primary = cluster.elect()
    cluster.tick(30)
    primary.wall_us += 2_000_000
    primary.on_request(bytes(16), 1, Operation.CREATE_STREAM.value, b"x")
    assert primary.is_primary
    assert primary.op == primary.commit_max + 1


def test_no_replica_hands_over_while_clocks_disagree():
    cluster = skewed({0: -OFF_US, 2: OFF_US})
    cluster.elect()
    cluster.tick(50)
    primary = cluster.elect()
    cluster.tick(200)
    assert primary.is_primary


def test_an_answer_to_a_former_life_says_nothing():
    cluster, primary = elected()
    cluster.tick(30)
    peer = primary.others[0]
    before = primary.contact_us[peer]
    pong = Pong(
        *primary.canon[1][:4], primary.view, 1, 2, peer, primary.ping_monotonic + 1, 0, 0, 0, 0
    )
    primary.on_frame(pong, b"")
    assert primary.contact_us[peer] == before


# -- releases -------------------------------------------------------------------------------------

NEW_OPERATION = Operation.JOIN_CONSUMER_GROUP.value


def of_releases(*releases: int) -> ScriptedCluster:
    cluster = ScriptedCluster(len(releases))
    cluster.configs = [
        msgspec.structs.replace(config, release=release, newer_operations=((NEW_OPERATION, 2),))
        for config, release in zip(cluster.configs, releases, strict=True)
    ]
    for replica in range(len(releases)):
        cluster.start(replica)
    return cluster


def test_a_new_operation_waits_until_every_replica_advertises_its_release():
    cluster = of_releases(2, 2, 1)
    cluster.elect()
    cluster.tick(50)
    cluster.request(b"join", number=1, operation=NEW_OPERATION)
    assert cluster.replies()[-1].status == Refusal.RELEASE_TOO_OLD
    cluster.request(b"old", number=2)
    assert cluster.replies()[-1].status == 0
    assert not cluster.effects_of(ClusterRelease)
    cluster.configs[2] = msgspec.structs.replace(cluster.configs[2], release=2)
    cluster.crash(2)
    cluster.start(2)
    cluster.elect()
    cluster.tick(50)
    assert ClusterRelease(2) in cluster.effects_of(ClusterRelease)
    cluster.request(b"join", number=3, operation=NEW_OPERATION)
    assert cluster.replies()[-1].status == 0


def test_a_replica_that_was_never_heard_may_be_of_any_release():
    cluster = of_releases(2, 2, 2)
    cluster.crash(2)
    cluster.elect()
    cluster.tick(50)
    assert cluster.primary().cluster_release == 1


def test_a_single_replica_knows_what_it_knows():
    cluster = of_releases(2)
    cluster.elect()
    cluster.request(b"join", number=1, operation=NEW_OPERATION)
    assert cluster.replies()[-1].status == 0


def test_a_data_group_is_told_by_its_node():
    cluster = of_releases(2, 2, 2)
    replica = cluster.replicas[0]
    replica.on_cluster_release(2)
    assert replica.cluster_release == 2
