"""Restarts, genesis, lost disks (G1-G4, S5, S6), with P2, P3 and P4."""

from collections import deque
from contextlib import nullcontext

import msgspec
import pytest
from tests.support.consensus_cluster import ScriptedCluster, backups, elected, lone_holder
from tests.support.planted_bugs import plant_bugs

from borzoi.consensus import view_change
from borzoi.consensus.effects import Abdicate, Fatal, RewriteJournal
from borzoi.consensus.invariants import InvariantError
from borzoi.consensus.messages import DoViewChange, Handshake, Prepare, PrepareOk
from borzoi.consensus.state import Status
from borzoi.consensus.superblock import Superblock, Unreadable


def without_a_disk() -> tuple[ScriptedCluster, int]:
    """A backup has crashed and lost its disk."""
    cluster, _ = elected()
    lost = backups(cluster)[0]
    cluster.crash(lost)
    cluster.wipe(lost)
    return cluster, lost


def applied(cluster: ScriptedCluster, replica: int) -> list[bytes]:
    return cluster.applied(replica)


def fatal(cluster: ScriptedCluster) -> list[str]:
    return [effect.reason for _, effect in cluster.outputs if isinstance(effect, Fatal)]


def with_crashed_backup(ops: int) -> tuple[ScriptedCluster, int]:
    """A cluster that has committed some ops, and a backup that has crashed since."""
    cluster, _ = elected()
    for number in range(ops):
        cluster.request(b"%d" % number, number=number)
    crashed = backups(cluster)[0]
    cluster.crash(crashed)
    return cluster, crashed


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_p2_a_whole_cluster_restart_keeps_everything_acknowledged(count):
    cluster, _ = elected(count)
    for number in range(5):
        cluster.request(b"%d" % number, number=number)
    cluster.crash(*range(count))
    for replica in range(count):
        cluster.start(replica)
    new = cluster.elect()
    cluster.request(b"after")
    assert applied(cluster, new.replica_id) == [b"0", b"1", b"2", b"3", b"4", b"after"]


@pytest.mark.parametrize("early", [False, True])
def test_p4_nothing_is_acknowledged_before_a_quorum_has_synced(early):
    plant_bugs(ack_before_fsync=early)
    cluster, primary = elected()
    cluster.stuck_disks = {0, 1, 2}
    cluster.request(b"x")
    assert bool(cluster.replies()) is early
    cluster.stuck_disks = set()
    if not early:
        cluster.settle()
        assert len(cluster.replies()) == 1
    assert primary.op == 2


def test_own_ack_before_fsync_is_a_planted_bug():
    plant_bugs(own_ack_before_fsync=True)
    cluster, _ = elected(1)
    cluster.stuck_disks = {0}
    cluster.request(b"x")
    assert cluster.replies()


def forgotten(**bugs: bool) -> tuple[ScriptedCluster, int, int, int]:
    """Op 2 was acknowledged by a backup that then lost its disk; the other backup lacks it."""
    cluster, primary, holder, lacking = lone_holder(**bugs)
    cluster.crash(primary, holder)
    cluster.wipe(holder)
    cluster.heal()
    cluster.start(holder, wiped=True)
    return cluster, primary, holder, lacking


def test_p3_g2_a_wiped_replica_has_no_voice():
    cluster, primary, holder, _ = forgotten()
    cluster.tick(600)
    assert not [r for r in cluster.replicas.values() if r.is_primary]
    assert cluster.replicas[holder].status == Status.RECOVERING
    cluster.start(primary)
    cluster.elect()
    cluster.tick(100)
    rejoined = cluster.replicas[holder]
    assert (rejoined.status, rejoined.wiped) == (Status.NORMAL, False)
    assert applied(cluster, holder) == [b"committed"]


def test_p3_amnesia_loses_what_was_acknowledged():
    cluster, _, _, _ = forgotten(amnesia_rejoin=True)
    with pytest.raises(AssertionError, match="op 2 was applied with two contents"):
        cluster.tick(600)


@pytest.mark.parametrize("hasty", [False, True])
def test_g2_no_ack_before_the_barrier_is_committed_by_others(hasty):
    plant_bugs(wiped_acks_before_barrier=hasty)
    cluster, primary = elected()
    wiped, other = backups(cluster)
    cluster.request(b"x")
    cluster.crash(wiped)
    cluster.wipe(wiped)
    acks: list[int] = []

    def without_the_other(source: int, target: int, header: object) -> bool:
        if source == wiped and isinstance(header, PrepareOk):
            acks.append(header.op)
        return other in (source, target)

    cluster.drop = without_the_other
    cluster.start(wiped, wiped=True)
    cluster.tick(90)
    assert bool(acks) is hasty
    if not hasty:
        assert cluster.replicas[wiped].wiped
        cluster.heal()
        cluster.tick(60)
        assert not cluster.replicas[wiped].wiped
    assert primary.view == cluster.primary().view


def left_and_forgot(
    count: int, *, on_its_way: bool, counts: bool = False
) -> tuple[ScriptedCluster, int, int, int]:
    """A backup claims the next view, loses its disk, and rejoins the old one.

    Its claim has reached the candidate, or is still on its way there.
    """
    plant_bugs(forgetful_counts=counts)
    cluster = ScriptedCluster(count)
    primary = cluster.elect().replica_id
    cluster.request(b"before")
    cluster.tick(5)
    candidate, forgetful = (primary + 1) % count, (primary + 2) % count
    cluster.drop = lambda source, target, header: not isinstance(header, DoViewChange)
    leaving = cluster.replicas[forgetful]
    leaving.promise_until = 0
    view_change.enter_view(leaving, leaving.view + 1)
    cluster.execute(forgetful)
    cluster.sync(forgetful)
    claim, cluster.network = cluster.network, deque()
    if on_its_way:
        cluster.heal()
    else:
        cluster.network.extend(claim)
        claim.clear()
        cluster.settle()
        assert forgetful in cluster.replicas[candidate].claims
        cluster.isolate(candidate)
    cluster.crash(forgetful)
    cluster.wipe(forgetful)
    again = cluster.start(forgetful, wiped=True)
    for _ in range(300):
        cluster.tick(1)
        if not again.wiped:
            break
    assert (again.status, again.view) == (Status.NORMAL, cluster.replicas[primary].view)
    cluster.network.extend(claim)
    return cluster, primary, candidate, forgetful


@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize(("count", "on_its_way"), [(3, True), (4, True), (4, False)])
def test_p3_g2_who_forgot_having_left_a_view_does_not_count_in_it(count, on_its_way, counts):
    """Found by a seed: it counted for both views, and an op that was answered was lost."""
    cluster, primary, candidate, forgetful = left_and_forgot(
        count, on_its_way=on_its_way, counts=counts
    )
    replies = len(cluster.replies())
    claim, cluster.network = cluster.network, deque()
    together = {primary, forgetful}
    cluster.drop = lambda source, target, header: {source, target} != together
    cluster.request(b"precious", at=primary)
    assert (len(cluster.replies()) > replies) is counts
    # Now the candidate goes on, with the claim of the former life and with who did not hear this.
    cluster.network.extend(claim)
    cluster.drop = lambda source, target, header: (
        bool({source, target} & together) and not (isinstance(header, DoViewChange))
    )
    damage = pytest.raises((AssertionError, InvariantError), match="content")
    with damage if counts else nullcontext():
        for _ in range(600):
            cluster.tick(1)
            if cluster.replicas[candidate].is_primary:
                break
        cluster.heal()
        cluster.elect()
        cluster.tick(300)
        assert len({tuple(applied(cluster, replica)) for replica in cluster.replicas}) == 1


def test_n10_a_primary_that_needs_the_forgetful_one_leaves_the_view():
    cluster, primary, candidate, forgetful = left_and_forgot(3, on_its_way=True)
    cluster.network.clear()
    view = cluster.replicas[primary].view
    cluster.crash(candidate)
    # Idle, it finds out by an op of its own; the next view is led by the dead one, the one after
    # that by the forgetful one.
    for _ in range(600):
        cluster.tick(1)
        leaders = [live for live in cluster.replicas.values() if live.may_read(cluster.now_us)]
        if leaders and leaders[0].view > view:
            break
    assert cluster.primary().view == view + 2
    cluster.request(b"after")
    cluster.tick(20)
    assert applied(cluster, primary) == applied(cluster, forgetful) == [b"before", b"after"]


def test_a_data_group_that_needs_the_forgetful_one_asks_its_node_once():
    cluster = ScriptedCluster(group=1)
    cluster.enter_view(3)
    cluster.crash(1)
    cluster.wipe(1)
    cluster.start(1, wiped=True)
    cluster.tick(10)
    assert not cluster.replicas[1].wiped
    cluster.crash(2)
    cluster.outputs.clear()
    cluster.request(b"x", at=0)
    assert not cluster.replies()
    cluster.tick(120)
    assert len(cluster.effects_of(Abdicate)) == 1
    cluster.start(2)
    cluster.tick(120)
    assert len(cluster.replies()) == 1


def test_a_wiped_start_keeps_what_its_former_life_may_have_promised():
    cluster, primary = elected()
    wiped = backups(cluster)[0]
    cluster.crash(wiped)
    cluster.wipe(wiped)
    live = cluster.start(wiped, wiped=True)
    assert live.promise_until == live.timers.now + 2 * live.config.timeouts.lease
    assert primary.is_primary


def test_d2_a_data_group_acknowledges_nothing_in_a_view_its_node_had_left():
    cluster = ScriptedCluster(group=1)
    cluster.enter_view(3)
    cluster.request(b"x")
    acks: list[int] = []

    def listen(source: int, target: int, header: object) -> bool:
        if source == 2 and isinstance(header, PrepareOk):
            acks.append(header.view)
        return False

    cluster.drop = listen
    cluster.crash(2)
    cluster.start(2)
    cluster.settle()
    assert set(acks) == {3}
    acks.clear()
    cluster.crash(2)
    again = cluster.start(2, node_view=4)
    cluster.settle()
    assert not acks
    assert (again.status, again.view) == (Status.VIEW_CHANGE, 3)
    again.on_enter_view(4, 7)
    assert (again.view, again.resigned, again.promise_until) == (4, False, again.timers.now + 7)


def test_g2_a_replica_that_has_its_barrier_costs_the_log_nothing_more():
    """Found by a seed: each of its requests added an op, and it never caught up with the log."""
    cluster, primary = elected()
    cluster.request(b"x")
    wiped = backups(cluster)[0]
    cluster.crash(wiped)
    cluster.wipe(wiped)
    # It hears that the view has begun, and of its barrier, but is given nothing else.
    cluster.drop = lambda source, target, header: (
        target == wiped and isinstance(header, Prepare) and header.op <= 2
    )
    live = cluster.start(wiped, wiped=True)
    cluster.tick(40)
    assert live.barrier is not None
    head = primary.op
    cluster.tick(400)
    assert live.wiped
    assert primary.op == head
    cluster.heal()
    cluster.tick(60)
    assert not live.wiped


def test_g2_the_flag_is_durable_until_done():
    cluster, wiped = without_a_disk()
    cluster.isolate(wiped)
    cluster.start(wiped, wiped=True)
    cluster.settle()
    disk = cluster.disks[wiped].superblock
    assert isinstance(disk, Superblock)
    assert disk.wiped
    cluster.crash(wiped)
    again = cluster.start(wiped)
    assert again.status == Status.RECOVERING
    cluster.heal()
    cluster.tick(60)
    cleared = cluster.disks[wiped].superblock
    assert isinstance(cleared, Superblock)
    assert not cleared.wiped


def test_g2_if_the_view_changes_meanwhile_it_starts_over():
    cluster, primary = elected(5)
    wiped = backups(cluster)[0]
    cluster.crash(wiped)
    cluster.wipe(wiped)
    cluster.drop = lambda source, target, header: target == wiped and isinstance(header, Prepare)
    cluster.start(wiped, wiped=True)
    cluster.tick(10)
    first = cluster.replicas[wiped].barrier
    cluster.crash(primary.replica_id)
    cluster.elect()
    cluster.tick(40)
    assert first is not None
    assert cluster.replicas[wiped].view > primary.view
    cluster.heal()
    cluster.tick(80)
    assert not cluster.replicas[wiped].wiped


def test_g1_genesis_needs_all_replicas():
    cluster = ScriptedCluster(formatted=False)
    cluster.crash(2)
    cluster.network.clear()
    cluster.tick(300)
    assert all(replica.is_empty for replica in cluster.replicas.values())
    cluster.start(2)
    primary = cluster.elect()
    assert (primary.view, primary.replica_id) == (0, 0)
    cluster.request(b"x")
    assert len(cluster.replies()) == 1


def test_g1_a_majority_is_not_enough_even_if_it_would_start():
    plant_bugs(genesis_with_majority=True)
    cluster = ScriptedCluster(formatted=False)
    cluster.crash(2)
    cluster.tick(60)
    assert not cluster.replicas[0].is_empty


def test_g1_a_replica_counted_at_genesis_formats_although_it_missed_the_others():
    cluster = ScriptedCluster(formatted=False)
    cluster.network.clear()
    # Replica 2 receives nothing, but all others receive that it is empty.
    cluster.drop = lambda source, target, header: target == 2
    cluster.tick(40)
    assert not cluster.replicas[0].is_empty
    assert cluster.replicas[2].is_empty
    cluster.heal()
    cluster.tick(60)
    assert cluster.replicas[2].status == Status.NORMAL


def test_an_empty_replica_among_a_formatted_cluster_stays_silent():
    cluster, empty = without_a_disk()
    cluster.start(empty)
    cluster.tick(300)
    assert cluster.replicas[empty].is_empty


def test_g3_an_unreadable_superblock_is_not_empty():
    cluster, _ = elected()
    cluster.crash(0)
    cluster.disks[0].superblock = Unreadable("both pairs are bad")
    assert cluster.start(0).stopped
    assert "wipe" in fatal(cluster)[0]
    cluster.replicas[0].tick(1000)
    cluster.replicas[0].on_frame(cluster.replicas[1].canon[1], b"")
    assert cluster.replicas[0].take_effects() == []


def test_g4_the_disk_of_another_replica_is_refused():
    cluster, _ = elected()
    cluster.crash(0)
    cluster.disks[0].superblock = cluster.disks[1].superblock
    cluster.start(0)
    assert "replica_id" in fatal(cluster)[0]


def test_a_missing_or_foreign_checkpoint_is_refused():
    cluster, _ = elected(checkpoint_interval=4)
    for number in range(8):
        cluster.request(b"x", number=number)
    cluster.crash(0)
    kept = dict(cluster.disks[0].checkpoints)
    cluster.disks[0].checkpoints.clear()
    cluster.start(0)
    cluster.crash(0)
    newest = max(kept)
    manifest = kept[newest].manifest._replace(entries=())
    cluster.disks[0].checkpoints = {newest: kept[newest]._replace(manifest=manifest)}
    cluster.start(0)
    assert ["damaged" in reason for reason in fatal(cluster)] == [True, True]


def test_s5_an_unnamed_gap_costs_the_voice_until_the_barrier_and_only_once():
    cluster, damaged = with_crashed_backup(ops=6)
    cluster.disks[damaged].rot_header(3, trailer_too=True)
    cluster.disks[damaged].rot_header(4, trailer_too=True)
    assert cluster.start(damaged).status == Status.RECOVERING
    cluster.tick(100)
    assert cluster.replicas[damaged].status == Status.NORMAL
    assert cluster.effects_of(RewriteJournal)
    cluster.crash(damaged)
    assert cluster.start(damaged).status == Status.NORMAL


def test_s5_a_named_gap_is_repaired_and_never_nacked():
    cluster, damaged = with_crashed_backup(ops=6)
    cluster.disks[damaged].rot_header(3)
    again = cluster.start(damaged)
    assert again.status == Status.NORMAL
    assert list(again.lost.values()) == [3]
    cluster.tick(60)
    assert not again.lost
    assert applied(cluster, damaged) == applied(cluster, cluster.primary().replica_id)


def test_s5_a_lost_head_costs_the_voice_even_with_a_name():
    """A log that ends below an op that it may have acknowledged would prove it was never there."""
    cluster, damaged = with_crashed_backup(ops=3)
    disk = cluster.disks[damaged]
    repaired_later = disk.records[1]
    disk.rot_header(4)
    disk.records.append(repaired_later)
    assert cluster.start(damaged).status == Status.RECOVERING
    cluster.tick(60)
    assert cluster.replicas[damaged].status == Status.NORMAL


def test_faulty_bodies_found_at_restart_are_repaired():
    cluster, damaged = with_crashed_backup(ops=4)
    cluster.disks[damaged].rot_body(3)
    cluster.start(damaged)
    cluster.tick(60)
    assert cluster.replicas[damaged].durable_prefix == cluster.primary().op


def test_a_data_group_restarting_as_primary_waits_for_its_node():
    cluster = ScriptedCluster(group=1)
    cluster.enter_view(3)
    cluster.crash(0)
    again = cluster.start(0)
    assert (again.status, again.view) == (Status.VIEW_CHANGE, 3)
    cluster.enter_view(4)
    assert cluster.primary().replica_id == 1


def test_a_resumed_primary_is_a_planted_bug():
    plant_bugs(primary_resumes_view=True)
    cluster = ScriptedCluster()
    assert cluster.replicas[0].view == 0
    assert cluster.replicas[0].is_primary


def test_an_empty_replica_ignores_everything_but_handshakes():
    cluster = ScriptedCluster(formatted=False)
    live = cluster.replicas[0]
    live.take_effects()
    live.on_frame(live.canon[0], b"")
    assert live.take_effects() == []


def test_a_restart_inside_a_view_change_repeats_its_claim():
    cluster, old = elected()
    cluster.request(b"x")
    cluster.crash(old.replica_id)
    cluster.drop = lambda source, target, header: True
    survivors = sorted(cluster.replicas)
    for replica in survivors:
        view_change.enter_view(cluster.replicas[replica], old.view + 1)
        cluster.execute(replica)
    cluster.settle()
    cluster.crash(*survivors)
    for replica in survivors:
        again = cluster.start(replica)
        assert (again.status, again.view) == (Status.VIEW_CHANGE, old.view + 1)
        assert again.do_view_change is not None
        assert again.do_view_change[0].op == 2
    cluster.heal()
    new = cluster.elect()
    assert cluster.applied(new.replica_id) == [b"x"]


def test_an_answer_meant_for_an_earlier_life_does_not_start_genesis():
    cluster = ScriptedCluster(formatted=False)
    live = cluster.replicas[0]
    cluster.network.clear()
    answer = Handshake(
        *live.canon[0][:6], 67, 1, 1, 1, 0, b"i" * 16, b"another life....", bytes(32), bytes(32)
    )
    live.on_frame(answer, b"")
    assert live.empties == 1


def test_a_data_group_that_rejoins_follows_a_view_its_node_entered_meanwhile():
    cluster = ScriptedCluster(group=1)
    cluster.enter_view(3)
    cluster.crash(2)
    cluster.wipe(2)
    cluster.drop = lambda source, target, header: target == 2 and isinstance(header, Prepare)
    live = cluster.start(2, wiped=True)
    cluster.tick(5)
    assert live.barrier is not None
    live.on_enter_view(4, 0)
    assert live.view == 3
    cluster.heal()
    cluster.tick(40)
    assert (live.wiped, live.view, live.status) == (False, 4, Status.VIEW_CHANGE)
    for replica in (0, 1):
        cluster.replicas[replica].on_enter_view(4, 0)
        cluster.execute(replica)
    cluster.tick(40)
    assert live.status == Status.NORMAL


def test_a_restarted_primary_of_a_data_group_never_leads_that_view_again():
    """Found by a seed: it looked like a candidate that had decided, and prepared an op anew."""
    cluster = ScriptedCluster(group=1)
    cluster.enter_view(3)
    assert cluster.primary().replica_id == 0
    cluster.crash(0)
    again = cluster.start(0)
    again.on_machine_ready()
    again.persist()
    cluster.execute(0)
    cluster.tick(200)
    assert (again.status, again.is_primary) == (Status.VIEW_CHANGE, False)
    again.on_enter_view(6, 0)
    assert not again.resigned


def test_a_rotten_last_record_that_the_ring_names_costs_no_voice():
    """S5: taken for a torn write, it would be a proof that this replica never acknowledged it."""
    cluster, _ = elected()
    cluster.request(b"acknowledged")
    holder = backups(cluster)[0]
    cluster.crash(holder)
    header, _, _ = cluster.disks[holder].records.pop()
    found = msgspec.structs.replace(cluster.disks[holder].scan(), redundant=(header,))
    cluster.disks[holder].scan = lambda: found  # type: ignore[method-assign]
    live = cluster.start(holder)
    assert (live.status, live.op, live.durable_prefix) == (Status.NORMAL, 2, 1)
    claim, _ = view_change.build_do_view_change(live)
    assert claim.nack_bitset == bytes(16)
    cluster.settle()
    cluster.tick(20)
    assert live.durable_prefix == live.op
    assert (holder, RewriteJournal()) in cluster.outputs
