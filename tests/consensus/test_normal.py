"""Normal operation, rule by rule (N1-N11, C1)."""

import pytest
from tests.support.consensus_cluster import (
    CLUSTER,
    ScriptedCluster,
    backups,
    client_id,
    elected,
    isolated_primary,
)
from tests.support.planted_bugs import plant_bugs

from borzoi.consensus import normal
from borzoi.consensus.effects import FailWaiters, Refusal, Respond, Send
from borzoi.consensus.frames import EMPTY_BODY, checksum
from borzoi.consensus.messages import (
    UNSEALED,
    ZERO,
    Command,
    Commit,
    Header,
    Operation,
    Prepare,
    PrepareOk,
    Request,
)
from borzoi.consensus.timeouts import Timer

ADA = client_id(1)
CREATE = Operation.CREATE_STREAM.value


def register(cluster: ScriptedCluster, client: bytes = ADA) -> None:
    cluster.request(b"", client=client, operation=Operation.REGISTER.value)


def statuses(cluster: ScriptedCluster) -> list[int]:
    return [reply.status for reply in cluster.replies()]


def test_n11_a_new_primary_commits_a_noop_without_any_client():
    _, primary = elected()
    assert primary.canon[primary.commit_min].operation == Operation.NOOP


def test_a_request_is_answered_after_commit_and_reaches_every_replica():
    cluster, _ = elected()
    cluster.request(b"one", number=9)
    cluster.tick(20)
    assert cluster.replies() == [Respond(ZERO, 9, 0, b"\1\0\0\0")]
    assert {replica.commit_min for replica in cluster.replicas.values()} == {2}


def test_n3_the_primary_counts_itself_only_after_its_own_fsync():
    cluster, primary = elected()
    one, other = backups(cluster)
    cluster.stuck_disks = {primary.replica_id, other}
    cluster.request(b"x")
    assert not cluster.replies()
    cluster.stuck_disks = {other}
    cluster.settle()
    assert len(cluster.replies()) == 1
    assert one != other


def test_two_backups_commit_while_the_primary_still_syncs():
    cluster, primary = elected()
    cluster.stuck_disks = {primary.replica_id}
    cluster.request(b"x")
    assert len(cluster.replies()) == 1


def with_reordered_prepares() -> ScriptedCluster:
    """Four requests whose frames arrive in the reverse order."""
    cluster, _ = elected()
    for number in range(4):
        cluster.request(b"x", number=number, settle=False)
    cluster.network.reverse()
    cluster.settle()
    return cluster


def test_n4_reordered_prepares_are_kept_and_commit_without_a_resend():
    assert len(with_reordered_prepares().replies()) == 4


def test_m3_dropping_reordered_prepares_costs_resends():
    plant_bugs(reordered_prepare_dropped=True)
    assert len(with_reordered_prepares().replies()) < 4


def test_a_prepare_lost_below_a_newer_one_is_repaired_by_identity():
    cluster, _ = elected()
    cluster.drop = lambda source, target, header: isinstance(header, Prepare) and header.op == 2
    cluster.request(b"lost", settle=False)
    cluster.request(b"seen")
    cluster.heal()
    assert not cluster.replies()
    cluster.tick(5)
    assert len(cluster.replies()) == 2


def prepare_ok(cluster: ScriptedCluster, replica: int, identity: bytes | None = None) -> PrepareOk:
    primary = cluster.primary()
    head = primary.canon[primary.op]
    # fmt: off
    return PrepareOk(
        UNSEALED, EMPTY_BODY, CLUSTER, 256, primary.view, 1, Command.PREPARE_OK.value, replica,
        head.parent, identity or head.checksum, head.op, 0, 0, 0, 0, 0,
    )
    # fmt: on


@pytest.mark.parametrize("counted_by_number", [False, True])
def test_n6_p12_an_ack_of_another_prepare_with_the_same_number_does_not_count(counted_by_number):
    cluster, primary = isolated_primary(ack_by_op_number=counted_by_number)
    other = backups(cluster)[0]
    primary.on_frame(prepare_ok(cluster, other, b"another prepare!"), b"")
    cluster.execute(primary.replica_id)
    assert bool(cluster.replies()) is counted_by_number
    primary.on_frame(prepare_ok(cluster, other)._replace(view=primary.view - 1), b"")
    primary.on_frame(prepare_ok(cluster, other)._replace(op=99), b"")
    cluster.execute(primary.replica_id)
    assert bool(cluster.replies()) is counted_by_number
    primary.on_frame(prepare_ok(cluster, other), b"")
    cluster.execute(primary.replica_id)
    assert len(cluster.replies()) == 1


@pytest.mark.parametrize("skips", [False, True])
def test_n5_m5_a_cumulative_ack_stops_below_a_hole(skips):
    plant_bugs(ack_skips_hole=skips)
    cluster, primary = elected()
    behind = backups(cluster)[0]
    cluster.drop = lambda source, target, header: target == behind and isinstance(header, Prepare)
    for number in range(3):
        cluster.request(b"x", number=number)
    acked: list[int] = []

    def watch(source: int, target: int, header: Header) -> bool:
        """The backup learns the head from a probe; bodies below it never arrive."""
        if source == behind and isinstance(header, PrepareOk):
            acked.append(header.op)
        return isinstance(header, Prepare) and target == behind and header.op < primary.op

    cluster.drop = watch
    cluster.tick(60)
    assert cluster.replicas[behind].op == primary.op
    assert (max(acked, default=0) > cluster.replicas[behind].durable_prefix) is skips


@pytest.mark.parametrize("accepts_old", [False, True])
def test_n8_a_replayed_heartbeat_does_not_keep_a_dead_primary_alive(accepts_old):
    plant_bugs(old_heartbeat_accepted=accepts_old)
    cluster, primary = elected()
    heard = cluster.watch(Commit)
    cluster.tick(20)
    cluster.crash(primary.replica_id)
    for _ in range(200):
        for replica in list(cluster.replicas):
            cluster.replicas[replica].on_frame(heard[0], b"")
        cluster.tick(1)
    views = {replica.view for replica in cluster.replicas.values()}
    assert (views == {primary.view}) is accepts_old


def test_n9_unacked_prepares_are_resent_until_they_commit():
    cluster, _ = elected()
    cluster.drop = lambda source, target, header: isinstance(header, Prepare)
    cluster.request(b"x")
    cluster.tick(5)
    cluster.heal()
    cluster.tick(30)
    assert len(cluster.replies()) == 1


def test_n10_a_primary_without_answers_falls_silent_and_is_replaced():
    cluster, primary = elected()
    cluster.drop = lambda source, target, header: target == primary.replica_id
    cluster.request(b"x")
    cluster.tick(450)
    others = [r for r in cluster.replicas.values() if r is not primary]
    assert any(replica.is_primary for replica in others)


def test_two_replicas_recover_from_a_silence_in_which_the_primary_gave_up():
    cluster, primary = elected(2)
    cluster.isolate(primary.replica_id)
    cluster.request(b"x")
    cluster.tick(300)
    assert primary.abdicating
    cluster.heal()
    cluster.tick(100)
    cluster.elect()
    cluster.request(b"y")
    assert statuses(cluster)[-1] == 0


def test_only_a_primary_takes_requests_and_says_so_otherwise():
    cluster, _ = elected()
    cluster.request(b"x", at=backups(cluster)[0])
    assert statuses(cluster) == [Refusal.NOT_PRIMARY]


def test_unknown_operations_and_refusals_of_the_machine_make_no_op():
    cluster, primary = elected()
    head = primary.op
    cluster.request(b"x", operation=99)
    cluster.request(b"refuse")
    assert statuses(cluster) == [Refusal.UNKNOWN_OPERATION, 7]
    assert primary.op == head


def test_a_full_pipeline_queues_and_a_full_queue_refuses():
    cluster, primary = elected(pipeline_max=2)
    cluster.isolate(primary.replica_id)
    for number in range(2 + 64 + 1):
        cluster.request(b"x", number=number)
    assert statuses(cluster) == [Refusal.BUSY]
    cluster.heal()
    cluster.tick(60)
    assert statuses(cluster).count(0) == 66


def test_a_retry_is_answered_from_the_table_and_executed_once():
    cluster, primary = elected()
    register(cluster)
    for _ in range(2):
        cluster.request(b"x", client=ADA, number=1)
    assert cluster.replies()[1] == cluster.replies()[2]
    assert cluster.applied(primary.replica_id) == [b"x"]
    cluster.request(b"y", client=ADA, number=1)
    assert statuses(cluster)[-1] == Refusal.REQUEST_MISMATCH


def test_a_retry_while_the_first_is_in_flight_waits_for_its_answer():
    cluster, primary = elected()
    register(cluster)
    cluster.isolate(primary.replica_id)
    for _ in range(2):
        cluster.request(b"x", client=ADA, number=1)
    cluster.heal()
    cluster.tick(20)
    assert statuses(cluster) == [0, 0]


def test_without_a_session_nothing_is_executed():
    cluster, _ = elected()
    cluster.request(b"x", client=ADA, number=1)
    assert statuses(cluster) == [Refusal.UNKNOWN_SESSION]


def test_unregister_ends_a_session():
    cluster, _ = elected()
    register(cluster)
    cluster.request(b"", client=ADA, number=1, operation=Operation.UNREGISTER.value)
    cluster.request(b"x", client=ADA, number=2)
    assert statuses(cluster) == [0, 0, Refusal.UNKNOWN_SESSION]


def test_an_older_epoch_is_fenced_and_cannot_slip_in_behind_the_register():
    cluster, primary = elected()
    register(cluster)
    epoch = int.from_bytes(cluster.replies()[0].payload, "little")
    cluster.request(b"", client=ADA, operation=Operation.REGISTER.value, settle=False)
    primary.on_request(ADA, 1, CREATE, b"zombie", epoch=epoch)
    cluster.execute(primary.replica_id)
    cluster.settle()
    primary.on_request(ADA, 1, CREATE, b"zombie", epoch=epoch)
    cluster.execute(primary.replica_id)
    assert statuses(cluster) == [0, Refusal.BUSY, 0, Refusal.FENCED]


def test_a_forwarded_request_is_answered_to_its_forwarder():
    cluster, primary = elected()
    forwarder = backups(cluster)[0]
    # fmt: off
    request = Request(
        UNSEALED, checksum(b"x"), CLUSTER, 257, 0, 1, Command.REQUEST.value, forwarder, ZERO,
        checksum(b"x"), 0, 5, CREATE, 0, 0, 0,
    )
    # fmt: on
    primary.on_frame(request, b"x")
    cluster.execute(primary.replica_id)
    cluster.settle()
    answered = [(node, out.request) for node, out in cluster.outputs if isinstance(out, Respond)]
    assert answered == [(forwarder, 5)]


def test_c5_waiters_of_a_lost_view_learn_that_the_outcome_is_unknown():
    cluster, primary = elected()
    cluster.isolate(primary.replica_id)
    cluster.request(b"x")
    cluster.tick(400)
    cluster.heal()
    cluster.tick(60)
    assert not [reply for reply in cluster.replies() if reply.status == 0]
    assert cluster.effects_of(FailWaiters)


@pytest.mark.parametrize("local", [False, True])
def test_timestamps_never_go_back_whatever_the_clock_does(local):
    plant_bugs(timestamp_from_local_clock=local)
    cluster, primary = elected()
    cluster.request(b"x")
    cluster.now_us -= 500_000
    cluster.request(b"y")
    stamps = [primary.canon[op].timestamp for op in sorted(primary.canon) if op]
    assert (stamps == sorted(set(stamps))) is not local


def test_an_abdicating_primary_resends_nothing_and_recovers_with_the_next_ack():
    cluster, primary = elected()
    cluster.isolate(primary.replica_id)
    cluster.request(b"x")
    primary.abdicating = True
    primary.take_effects()
    normal.on_prepare_timer(primary)
    assert primary.take_effects() == []
    primary.on_frame(prepare_ok(cluster, backups(cluster)[0]), b"")
    assert not primary.abdicating
    normal.on_prepare_timer(primary)


@pytest.mark.parametrize("never", [False, True])
def test_n9_progress_resets_the_backoff(never):
    cluster, primary = isolated_primary(backoff_never_reset=never)
    cluster.request(b"y")
    for _ in range(4):
        primary.timers.back_off(Timer.PREPARE)
    cluster.heal()
    other = backups(cluster)[0]
    head = primary.canon[2]
    ack = prepare_ok(cluster, other)._replace(op=2, prepare_checksum=head.checksum)
    primary.on_frame(ack, b"")
    assert primary.pipeline.entries
    assert (primary.timers._deadlines[Timer.PREPARE] - primary.timers.now <= 10) is not never


def test_a_primary_with_a_stalled_disk_queues_and_goes_on_when_it_wakes():
    cluster, primary = elected(pipeline_max=64)
    cluster.stuck_disks = {primary.replica_id}
    for number in range(300):
        cluster.request(b"x", number=number)
    assert len(primary.journal_writes) == 256
    assert len(cluster.replies()) == 256
    cluster.stuck_disks = set()
    cluster.settle()
    assert len(cluster.replies()) == 300


def test_resends_go_only_to_those_who_have_not_acked():
    cluster, primary = elected(5)
    cluster.isolate(primary.replica_id)
    cluster.request(b"x")
    acker = backups(cluster)[0]
    primary.on_frame(prepare_ok(cluster, acker), b"")
    primary.take_effects()
    normal.on_prepare_timer(primary)
    targets = [effect.to for effect in primary.take_effects() if isinstance(effect, Send)]
    assert targets == backups(cluster)[1:]
    del primary.entries[primary.canon[2].checksum]
    normal.on_prepare_timer(primary)
    assert primary.take_effects() == []


def test_a_vote_its_voter_has_taken_back_is_not_kept_for_later():
    """A stale vote at the primary would help one deaf replica to a quorum."""
    cluster, primary = elected()
    one, other = backups(cluster)
    primary.votes = 1 << one | 1 << other
    primary.voting = True
    cluster.request(b"x")
    assert (primary.votes, primary.voting) == (0, False)
    primary.votes = 1 << one
    cluster.tick(40)
    assert primary.votes == 0
    assert cluster.primary() is primary


def test_a_primary_that_is_heard_again_stops_abdicating_together_with_its_vote():
    """Silent without a vote of its own, two replicas would wait for each other for ever."""
    cluster, primary = elected(2)
    other = backups(cluster)[0]
    cluster.isolate(primary.replica_id)
    cluster.request(b"x")
    cluster.tick(250)
    assert primary.abdicating
    assert primary.voting
    old = primary.canon[1]
    ack = prepare_ok(cluster, other)._replace(op=1, prepare_checksum=old.checksum)
    primary.on_frame(ack, b"")
    assert (primary.abdicating, primary.voting) == (False, False)
    cluster.heal()
    cluster.tick(300)
    assert statuses(cluster)[-1:] == [0] or cluster.effects_of(FailWaiters)
