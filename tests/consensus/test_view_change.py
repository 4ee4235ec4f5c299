"""Leaving views, deciding logs, adopting them (V1-V10, E1-E8, A1-A5)."""

import pytest
from tests.support.consensus_cluster import CLUSTER, ScriptedCluster, backups, elected, lone_holder
from tests.support.planted_bugs import plant_bugs

from borzoi.consensus import view_change
from borzoi.consensus.effects import Abdicate, EnterView, GroupCommits, Undecidable
from borzoi.consensus.frames import EMPTY_BODY, encode_headers
from borzoi.consensus.invariants import InvariantError
from borzoi.consensus.messages import (
    UNSEALED,
    ZERO,
    Command,
    Commit,
    DoViewChange,
    Header,
    Headers,
    Prepare,
    PrepareOk,
    RequestStateTransfer,
    StartView,
    StartViewChange,
)
from borzoi.consensus.state import Held, Status
from borzoi.consensus.superblock import Superblock


def sent(cluster: ScriptedCluster, kind: type) -> list[tuple[int, int, Header]]:
    """Everything of one kind handed to the network from now on."""
    seen: list[tuple[int, int, Header]] = []
    before = cluster.drop

    def watch(source: int, target: int, header: Header) -> bool:
        if isinstance(header, kind):
            seen.append((source, target, header))
        return before(source, target, header)

    cluster.drop = watch
    return seen


def test_a_dead_primary_is_replaced_and_nothing_acknowledged_is_lost():
    cluster, old = elected()
    cluster.request(b"kept")
    cluster.crash(old.replica_id)
    new = cluster.elect()
    assert new.view > old.view
    assert cluster.applied(new.replica_id) == [b"kept"]


@pytest.mark.parametrize("joins", [False, True])
def test_v2_p5_one_deaf_replica_changes_nothing(joins):
    plant_bugs(join_first_vote=joins)
    cluster, primary = elected()
    deaf = backups(cluster)[0]
    cluster.drop = lambda source, target, header: target == deaf
    cluster.tick(600)
    assert (primary.is_primary and primary.view == cluster.primary().view) is not joins


def test_v4_hearing_the_primary_cancels_the_vote_and_forgets_counted_ones():
    cluster, _ = elected()
    deaf = backups(cluster)[0]
    cluster.drop = lambda source, target, header: target == deaf
    cluster.tick(200)
    assert cluster.replicas[deaf].voting
    cluster.heal()
    cluster.tick(15)
    assert not cluster.replicas[deaf].voting
    assert cluster.replicas[deaf].votes == 0


def test_v3_a_vote_from_a_higher_view_pulls_a_replica_along():
    cluster, primary = elected(5)
    straggler = backups(cluster)[0]
    cluster.isolate(straggler)
    cluster.crash(primary.replica_id)
    newer = cluster.elect()
    assert newer.view > cluster.replicas[straggler].view
    vote = StartViewChange(*newer.do_view_change[0][:8], 0) if newer.do_view_change else None
    assert vote is not None
    cluster.replicas[straggler].on_frame(vote._replace(view=newer.view + 1), b"")
    assert cluster.replicas[straggler].view == newer.view


def test_v5_p9_nothing_of_a_new_view_leaves_before_its_superblock():
    cluster, old = elected()
    cluster.crash(old.replica_id)
    cluster.stuck_disks = set(cluster.replicas)
    claims = sent(cluster, DoViewChange)
    cluster.tick(300)
    assert not claims
    cluster.stuck_disks = set()
    cluster.tick(60)
    assert cluster.primary().view > old.view


def test_p9_a_replica_never_acts_in_a_view_it_has_left():
    cluster, old = elected()
    cluster.crash(old.replica_id)
    new = cluster.elect()
    other = next(replica for replica in cluster.replicas if replica != new.replica_id)
    cluster.crash(other)
    assert cluster.start(other).view == new.view


def test_v6_a_restarted_primary_does_not_resume_its_view():
    cluster, old = elected()
    cluster.crash(old.replica_id)
    again = cluster.start(old.replica_id)
    assert again.view == old.view + 1
    assert again.status == Status.VIEW_CHANGE
    assert cluster.elect().view == old.view + 1


def test_v6_a_restarted_backup_resumes_as_a_backup():
    cluster, primary = elected()
    other = backups(cluster)[0]
    cluster.crash(other)
    assert cluster.start(other).status == Status.NORMAL
    cluster.tick(50)
    assert cluster.primary() is primary


def test_v7_a_replica_that_missed_a_view_asks_for_it_instead_of_electing():
    cluster, old = elected()
    cluster.isolate(old.replica_id)
    cluster.tick(400)
    new = cluster.primary()
    assert new.view > old.view
    cluster.heal()
    cluster.tick(40)
    assert (old.view, old.status) == (new.view, Status.NORMAL)
    assert cluster.primary() is new


@pytest.mark.parametrize("rebuilt", [False, True])
def test_v9_p10_every_resend_of_a_do_view_change_is_the_same(rebuilt):
    """A body that rots meanwhile must not turn into a second claim of the same view."""
    plant_bugs(dvc_rebuilt_on_resend=rebuilt)
    cluster, old = elected()
    cluster.request(b"x")
    claimer = cluster.replicas[next(r for r in backups(cluster) if r != (old.view + 1) % 3)]
    claimer.promise_until = 0
    view_change.enter_view(claimer, old.view + 1)
    cluster.execute(claimer.replica_id)
    claims = sent(cluster, DoViewChange)
    cluster.sync(claimer.replica_id)
    for entry in claimer.entries.values():
        entry.held = Held.FAULTY
    view_change.on_do_view_change_timer(claimer)
    cluster.execute(claimer.replica_id)
    assert len(claims) == 2
    assert (claims[0] == claims[1]) is not rebuilt


@pytest.mark.parametrize("counts", [False, True])
def test_p10_the_first_claim_of_a_sender_counts(counts):
    plant_bugs(second_dvc_counts=counts)
    cluster, old = elected(5)
    candidate = cluster.replicas[(old.view + 1) % 5]
    view_change.enter_view(candidate, old.view + 1)
    assert candidate.do_view_change is not None
    claim, body = candidate.do_view_change
    sender = next(r for r in cluster.replicas if r != candidate.replica_id)
    candidate.on_frame(claim._replace(replica=sender), body)
    candidate.on_frame(claim._replace(replica=sender, nack_bitset=b"\1" + bytes(15)), body)
    assert (candidate.claims[sender].nacks == 1) is counts


def test_p6_the_only_copy_left_is_found_by_any_leader():
    cluster, primary, holder, lacking = lone_holder()
    cluster.crash(primary)
    cluster.heal()
    new = cluster.elect()
    assert cluster.applied(new.replica_id) == [b"committed"]
    assert {holder, lacking} == set(cluster.replicas)


def restart_with_rotten_copy(cluster: ScriptedCluster, primary: int, holder: int) -> None:
    cluster.crash(primary, holder)
    cluster.disks[holder].rot_body(2)
    cluster.heal()
    cluster.start(holder)
    cluster.tick(800)


def test_p7_a_corrupt_entry_is_no_proof_that_it_was_never_acknowledged():
    cluster, primary, holder, lacking = lone_holder()
    restart_with_rotten_copy(cluster, primary, holder)
    assert not [r for r in cluster.replicas.values() if r.is_primary]
    cluster.start(primary)
    cluster.elect()
    assert cluster.applied(lacking) == [b"committed"]


@pytest.mark.parametrize(
    "bug", ["corrupt_entry_nacked", "nack_quorum_of_one", "truncate_without_copy"]
)
def test_planted_merge_bugs_lose_a_committed_op(bug):
    cluster, primary, holder, _ = lone_holder(**{bug: True})
    with pytest.raises(AssertionError, match="op 2 was applied with two contents"):
        restart_with_rotten_copy(cluster, primary, holder)


def test_an_undecidable_op_is_reported_and_nothing_is_guessed():
    cluster, primary, holder, lacking = lone_holder()
    cluster.crash(primary, holder, lacking)
    for rotten in (primary, holder):
        cluster.disks[rotten].rot_body(2)
    cluster.heal()
    for replica in (primary, holder, lacking):
        cluster.start(replica)
    cluster.tick(600)
    assert not [r for r in cluster.replicas.values() if r.is_primary]
    reported = cluster.effects_of(Undecidable)
    assert reported
    assert all(effect.op == 2 for effect in reported if isinstance(effect, Undecidable))
    assert any(replica.undecidable == 2 for replica in cluster.replicas.values())


@pytest.mark.parametrize("forgets", [False, True])
def test_p8_log_view_is_raised_only_together_with_the_decided_headers(forgets):
    cluster, primary, _, lacking = lone_holder(suffix_not_persisted=forgets)
    cluster.crash(primary)
    cluster.heal()
    new = cluster.elect()
    disk = cluster.disks[lacking].superblock
    assert isinstance(disk, Superblock)
    assert disk.log_view == new.view
    assert (disk.suffix[-1].op == 2) is not forgets


@pytest.mark.parametrize("drops", [False, True])
def test_p1_a3_adopting_a_view_keeps_unverified_bodies(drops):
    """Bodies below the suffix may be one of two copies of a committed op."""
    plant_bugs(adopt_drops_unverified=drops)
    cluster, old = elected(pipeline_max=4)
    lagging = cluster.replicas[backups(cluster)[0]]
    # The lagging backup journals op 2 and never hears that it is committed.
    cluster.drop = lambda source, target, header: (
        isinstance(header, Commit) and target == lagging.replica_id
    )
    cluster.request(b"first")
    assert (lagging.op, lagging.commit_min) == (2, 1)
    unverified = lagging.canon[2].checksum
    cluster.isolate(lagging.replica_id)
    for number in range(12):
        cluster.request(b"more", number=number)
    cluster.crash(old.replica_id)
    cluster.drop = lambda source, target, header: (
        target == lagging.replica_id and isinstance(header, Headers | Prepare)
    )
    for _ in range(2_000):
        cluster.tick(1)
        if lagging.log_view > old.view:
            break
    assert lagging.log_view > old.view
    assert 2 not in lagging.canon
    assert (unverified in lagging.entries) is not drops


def test_a2_what_was_applied_can_never_be_rewritten():
    cluster, primary = elected()
    cluster.request(b"x")
    cluster.tick(20)
    other = cluster.replicas[backups(cluster)[0]]
    # fmt: off
    forged = StartView(
        UNSEALED, EMPTY_BODY, CLUSTER, 512, primary.view + 3, 0, Command.START_VIEW.value,
        primary.replica_id, 1, 1, 0, ZERO,
    )
    # fmt: on
    with pytest.raises(InvariantError):
        other.on_frame(forged, encode_headers([other.canon[1]]))


@pytest.mark.parametrize("early", [False, True])
def test_p11_no_ack_from_an_adopted_view_before_its_superblock(early):
    """Seen elsewhere: PrepareOk after StartView without the fsync gate."""
    plant_bugs(ack_before_superblock=early)
    cluster, old = elected()
    cluster.request(b"x")
    follower = backups(cluster)[0]
    cluster.drop = lambda source, target, header: target == follower
    cluster.tick(1)
    late = backups(cluster)[1]
    cluster.heal()
    cluster.crash(old.replica_id)
    acks: list[tuple[int, int, Header]] = []
    for _ in range(400):
        cluster.tick(1)
        entered = [r for r in cluster.replicas.values() if r.view > old.view]
        if len(entered) == 2 and not cluster.stuck_disks:
            waiting = next(r for r in entered if not r.leads_view())
            if waiting.log_view < waiting.view:
                cluster.stuck_disks = {waiting.replica_id}
                acks = sent(cluster, PrepareOk)
    of_stuck = [ack for ack in acks if ack[0] in cluster.stuck_disks]
    assert bool(of_stuck) is (early and bool(cluster.stuck_disks))
    assert late != follower


@pytest.mark.parametrize("edges_only", [False, True])
def test_m4_a_candidate_finishes_its_repair_from_the_tick(edges_only):
    plant_bugs(repair_only_on_messages=edges_only)
    cluster, old = elected()
    candidate = cluster.replicas[cluster.primary().primary_of(old.view + 1)]
    cluster.isolate(candidate.replica_id)
    cluster.request(b"x")
    blocked = {"on": True}
    cluster.drop = lambda source, target, header: (
        blocked["on"] and isinstance(header, Prepare) and target == candidate.replica_id
    )
    cluster.crash(old.replica_id)
    for _ in range(600):
        cluster.tick(1)
        if candidate.log_view == candidate.view > old.view:
            break
    assert candidate.status == Status.VIEW_CHANGE
    blocked["on"] = False
    cluster.tick(20)
    assert candidate.is_primary is not edges_only


def test_a_step_down_hands_over_within_a_few_ticks():
    for count in (3, 5):
        cluster, old = elected(count)
        cluster.request(b"x")
        cluster.tick(5)
        old.step_down()
        cluster.execute(old.replica_id)
        cluster.tick(3)
        assert cluster.primary().view == old.view == cluster.primary().view
        assert cluster.primary() is not old


def test_d2_a_data_group_takes_views_only_from_its_node():
    """Seen elsewhere: separate view counters let the advertised leader refuse writes."""
    cluster = ScriptedCluster(group=1)
    cluster.settle()
    assert cluster.effects_of(Abdicate)
    cluster.tick(900)
    assert {replica.view for replica in cluster.replicas.values()} == {0}
    for replica in sorted(cluster.replicas):
        cluster.replicas[replica].on_enter_view(4, 0)
        cluster.execute(replica)
    cluster.settle()
    primary = cluster.primary()
    assert (primary.view, primary.replica_id) == (4, 1)
    assert not cluster.effects_of(EnterView)
    cluster.request(b"x")
    commit = primary.commit_max
    for replica in backups(cluster):
        cluster.replicas[replica].on_group_commit(3, commit + 5, 0)
        cluster.replicas[replica].on_group_commit(4, commit, 0)
        cluster.execute(replica)
        assert cluster.replicas[replica].commit_min == commit


def test_d2_a_node_tells_its_data_groups_only_views_that_are_durable_and_again_after_a_start():
    cluster, old = elected()
    cluster.tick(5)
    cluster.outputs.clear()
    cluster.stuck_disks = set(cluster.replicas)
    old.step_down()
    cluster.execute(old.replica_id)
    cluster.tick(3)
    assert not cluster.effects_of(EnterView)
    cluster.stuck_disks = set()
    cluster.tick(3)
    assert {e.view for e in cluster.effects_of(EnterView) if isinstance(e, EnterView)} == {old.view}
    cluster.outputs.clear()
    follower = next(r for r in cluster.replicas if not cluster.replicas[r].leads_view())
    cluster.crash(follower)
    cluster.start(follower)
    told = cluster.effects_of(EnterView)[0]
    assert isinstance(told, EnterView)
    assert told.view == old.view


def test_a_stale_promise_delays_the_vote_for_another_log():
    """L1: a replica that answered the primary a moment ago starts no other view."""
    cluster, primary = elected()
    cluster.request(b"x")
    one, other = (cluster.replicas[replica] for replica in backups(cluster))
    claims = sent(cluster, DoViewChange)
    for replica in (one, other):
        replica.votes = (1 << one.replica_id) | (1 << other.replica_id)
    for replica in (one, other):
        view_change.leave_on_quorum(replica)
        cluster.execute(replica.replica_id)
    cluster.settle()
    assert not claims
    assert primary.may_read(cluster.now_us)
    cluster.tick(81)
    assert claims
    assert not primary.is_primary or not primary.may_read(cluster.now_us)


def test_commit_broadcasts_carry_every_group():
    cluster, primary = elected()
    primary.on_position(2, primary.view, 17, 9, bytes(16))
    primary.on_position(3, primary.view - 1, 99, 9, bytes(16))
    commits = sent(cluster, Commit)
    cluster.tick(12)
    assert commits
    groups = cluster.effects_of(GroupCommits)
    last = groups[-1]
    assert isinstance(last, GroupCommits)
    assert (2, 17, 9) in last.positions
    assert all(position[0] != 3 for position in last.positions)


def test_a_data_group_without_acks_makes_its_node_step_down():
    cluster = ScriptedCluster(group=1)
    cluster.enter_view(3)
    primary = cluster.primary()
    cluster.outputs.clear()
    cluster.isolate(primary.replica_id)
    cluster.request(b"x")
    cluster.tick(250)
    reasons = [e.reason for e in cluster.effects_of(Abdicate) if isinstance(e, Abdicate)]
    assert reasons
    assert "no acknowledgements" in reasons[0]


def test_a_data_group_that_cannot_start_says_so_and_the_node_leaves_the_view():
    cluster = ScriptedCluster(group=1)
    cluster.isolate(1)
    for replica in range(3):
        cluster.replicas[replica].on_enter_view(4, 0)
        cluster.execute(replica)
    cluster.tick(300)
    reasons = [e.reason for e in cluster.effects_of(Abdicate) if isinstance(e, Abdicate)]
    assert any("cannot start view 4" in reason for reason in reasons)
    control, primary = elected()
    other = control.replicas[backups(control)[0]]
    other.on_abdicate()
    assert other.voting
    primary.on_abdicate()
    assert primary.status == Status.VIEW_CHANGE


def test_a_candidate_too_far_behind_gives_up_at_once():
    cluster, old = elected(checkpoint_interval=8, retain_ops=4, pipeline_max=4)
    candidate = cluster.replicas[(old.view + 1) % 3]
    cluster.isolate(candidate.replica_id)
    for number in range(40):
        cluster.request(b"x", number=number)
    cluster.crash(old.replica_id)
    # Else it would catch up before the old primary is missed.
    cluster.drop = lambda source, target, header: isinstance(header, RequestStateTransfer)
    for _ in range(600):
        cluster.tick(1)
        if candidate.voting and candidate.log_view == candidate.view > old.view:
            break
    assert candidate.log_view == candidate.view > old.view
    cluster.heal()
    assert cluster.elect() is not candidate


def test_a_data_group_too_far_behind_asks_its_node_to_leave_at_once():
    cluster = ScriptedCluster(group=1, checkpoint_interval=8, retain_ops=4, pipeline_max=4)
    cluster.enter_view(3)
    cluster.isolate(1)
    for number in range(40):
        cluster.request(b"x", number=number)
    cluster.crash(0)
    cluster.heal()
    cluster.outputs.clear()
    for replica in (1, 2):
        cluster.replicas[replica].on_enter_view(4, 0)
        cluster.execute(replica)
    cluster.settle()
    reasons = [e.reason for e in cluster.effects_of(Abdicate) if isinstance(e, Abdicate)]
    assert reasons == ["group 1 is too far behind to lead view 4"]


def test_timers_that_fire_too_late_do_nothing():
    cluster, primary = elected()
    backup = cluster.replicas[backups(cluster)[0]]
    for replica in (primary, backup):
        replica.take_effects()
        view_change.on_vote_timer(replica)
        view_change.on_view_change_timer(replica)
        view_change.on_abdicate_timer(replica)
        view_change.on_do_view_change_timer(replica)
        assert replica.take_effects() == []
    view_change.step_down(backup)
    assert backup.status == Status.NORMAL


def test_claims_that_do_not_decode_or_are_old_are_not_counted():
    cluster, old = elected()
    cluster.crash(old.replica_id)
    candidate = next(
        r for r in cluster.replicas.values() if r.primary_of(old.view + 1) == r.replica_id
    )
    view_change.enter_view(candidate, old.view + 1)
    assert candidate.do_view_change is not None
    claim, body = candidate.do_view_change
    other = next(r for r in cluster.replicas if r != candidate.replica_id)
    candidate.on_frame(claim._replace(replica=other), body + b"x")
    candidate.on_frame(claim._replace(replica=other, op=claim.op + 1), body)
    candidate.on_frame(claim._replace(replica=other, view=old.view), body)
    assert not candidate.claims
    candidate.on_frame(claim._replace(replica=other), body)
    assert list(candidate.claims) == [other]


def test_a_late_claim_is_answered_with_the_view_that_started():
    cluster, primary = elected()
    assert primary.do_view_change is not None
    claim, body = primary.do_view_change
    other = backups(cluster)[0]
    starts = sent(cluster, StartView)
    primary.on_frame(claim._replace(replica=other), body)
    vote = StartViewChange(*claim[:8], 0)._replace(replica=other, view=primary.view)
    primary.on_frame(vote, b"")
    cluster.execute(primary.replica_id)
    assert [target for _, target, _ in starts] == [other, other]


def test_an_unknown_header_is_claimed_as_a_blank():
    cluster, _ = elected()
    for number in range(4):
        cluster.request(b"x", number=number, settle=False)
    cluster.settle()
    backup = cluster.replicas[backups(cluster)[0]]
    backup.commit_max = backup.commit_min = 1
    del backup.canon[3]
    header, body = view_change.build_do_view_change(backup)
    slot = header.op - 3
    raw = body[slot * 256 : slot * 256 + 256]
    assert raw[:16] == bytes(16)
    bits = int.from_bytes(header.nack_bitset, "little") | int.from_bytes(
        header.present_bitset, "little"
    )
    assert not bits >> slot & 1
    assert [known.op for known in backup.suffix()] == [4, 5]


def test_a_wiped_replica_neither_votes_nor_claims():
    cluster, primary = elected()
    wiped = backups(cluster)[0]
    cluster.crash(wiped)
    cluster.wipe(wiped)
    cluster.isolate(wiped)
    live = cluster.start(wiped, wiped=True)
    view_change.vote(live)
    assert primary.do_view_change is not None
    claim, body = primary.do_view_change
    live.on_frame(claim._replace(view=9), body)
    live.on_frame(StartViewChange(*claim[:8], 0)._replace(view=9), b"")
    live.on_enter_view(9, 0)
    assert (live.view, live.voting) == (0, False)


def test_d2_a_claim_for_a_view_the_node_has_not_reached_waits():
    cluster = ScriptedCluster(group=1)
    cluster.settle()
    for replica in (0, 2):
        cluster.replicas[replica].on_enter_view(4, 0)
        cluster.execute(replica)
    cluster.tick(30)
    assert cluster.replicas[1].view == 0
    cluster.replicas[1].on_enter_view(4, 0)
    cluster.execute(1)
    cluster.tick(20)
    assert cluster.replicas[1].is_primary
