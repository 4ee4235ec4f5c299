"""The start of a view, at its primary and at the backups that adopt it (E8, A1-A5)."""

import pytest
from tests.support.consensus_cluster import CLUSTER, ScriptedCluster, elected
from tests.support.planted_bugs import plant_bugs

from borzoi.consensus import new_view, state_transfer
from borzoi.consensus.effects import Abdicate
from borzoi.consensus.frames import EMPTY_BODY, blank, encode_headers
from borzoi.consensus.invariants import InvariantError
from borzoi.consensus.messages import (
    UNSEALED,
    ZERO,
    Command,
    Prepare,
    RequestStartView,
    RequestStateChunk,
    RequestStateTransfer,
    StartView,
    StateChunk,
    StateTransferTarget,
)
from borzoi.consensus.replica import Replica
from borzoi.consensus.state import Status


def backup_of(cluster: ScriptedCluster) -> int:
    primary = cluster.primary().replica_id
    return next(replica for replica in sorted(cluster.replicas) if replica != primary)


def start_view(view: int, replica: int, op: int, commit: int) -> StartView:
    # fmt: off
    return StartView(
        UNSEALED, EMPTY_BODY, CLUSTER, 256, view, 0, Command.START_VIEW.value, replica, op, commit,
        0, ZERO,
    )
    # fmt: on


def test_a1_an_answer_that_tells_nothing_new_is_ignored():
    cluster, primary = elected()
    cluster.tick(15)
    backup = cluster.replicas[backup_of(cluster)]
    before = backup.op
    body = encode_headers([backup.canon[1]])
    backup.on_frame(start_view(primary.view, primary.replica_id, 1, 1), body)
    backup.on_frame(start_view(primary.view - 1, 0, 9, 9), body)
    assert (backup.op, backup.view) == (before, primary.view)


@pytest.mark.parametrize("body", [b"", b"no headers", encode_headers([blank(9)])])
def test_a1_a_start_view_without_its_headers_is_dropped(body):
    cluster, primary = elected()
    backup = cluster.replicas[backup_of(cluster)]
    view = primary.view + 3
    backup.on_frame(start_view(view, view % 3, 9, 9), body)
    assert backup.view == primary.view


def test_a1_a_replica_never_adopts_a_view_that_it_leads():
    cluster, primary = elected()
    backup = cluster.replicas[backup_of(cluster)]
    mine = next(v for v in range(primary.view + 1, 9) if v % 3 == backup.replica_id)
    backup.on_frame(start_view(mine, backup.replica_id, 1, 1), encode_headers([backup.canon[1]]))
    assert backup.view == primary.view


TRANSFER = (RequestStateTransfer, StateTransferTarget, RequestStateChunk, StateChunk)


def overtaken() -> tuple[ScriptedCluster, Replica, StartView, bytes]:
    """One replica is still in an old view but has fetched a checkpoint of the new one, and the
    beginning of that view is only now on its way to it."""
    cluster = ScriptedCluster(checkpoint_interval=8, retain_ops=4)
    leader = cluster.elect().replica_id
    away = next(each for each in cluster.replicas if each not in (leader, (leader + 1) % 3))
    cluster.isolate(away)
    cluster.crash(leader)
    cluster.start(leader)
    primary = cluster.elect()
    begun = start_view(primary.view, primary.replica_id, primary.op, primary.op)
    body = encode_headers([primary.canon[primary.op]])
    for number in range(20):
        cluster.request(b"payload %d" % number)
    live = cluster.replicas[away]
    assert live.view < primary.view
    live.peer_checkpoint_op = primary.checkpoint_op
    cluster.drop = lambda source, target, header: (
        away in (source, target) and not isinstance(header, TRANSFER)
    )
    state_transfer.consider(live, repair_is_stuck=False)
    cluster.execute(away)
    cluster.tick(20)
    assert live.commit_min == primary.checkpoint_op > begun.op
    assert live.view < primary.view
    return cluster, live, begun, body


def test_a1_the_beginning_of_a_view_that_was_overtaken_by_a_checkpoint_of_it_is_ignored():
    """Found by a seed: the replica took the checkpoint for lost and stopped itself."""
    cluster, live, begun, body = overtaken()
    before = live.view
    live.on_frame(begun, body)
    assert live.view == before
    cluster.heal()
    cluster.tick(100)
    assert (live.view, live.commit_min) == (begun.view, cluster.primary().commit_min)
    assert cluster.applied(live.replica_id) == cluster.applied(cluster.primary().replica_id)


def test_a_view_that_lacks_what_was_applied_in_an_older_one_is_not_adopted():
    _, live, begun, body = overtaken()
    live.canon[live.commit_min] = live.canon[live.commit_min]._replace(view=begun.view - 1)
    with pytest.raises(InvariantError, match="a new view keeps every committed op"):
        live.on_frame(begun, body)


@pytest.mark.parametrize("bare", [False, True])
def test_an_answer_to_a_probe_carries_the_suffix(bare):
    plant_bugs(start_view_without_suffix=bare)
    cluster, primary = elected()
    backup = backup_of(cluster)
    cluster.isolate(primary.replica_id)
    for number in range(3):
        cluster.request(b"x", number=number)
    answers = cluster.watch(StartView, drop=True)
    # fmt: off
    probe = RequestStartView(
        UNSEALED, EMPTY_BODY, CLUSTER, 256, 0, 1, Command.REQUEST_START_VIEW.value, backup, 0, 0,
        ZERO,
    )
    # fmt: on
    primary.on_frame(probe, b"")
    primary.on_frame(probe._replace(view=primary.view + 1), b"")
    cluster.execute(primary.replica_id)
    assert len(answers) == 1
    assert (answers[0].op - answers[0].commit == 3) is not bare


def test_a_backup_that_learns_of_a_commit_above_its_head_asks_and_catches_up():
    """A5; early prepares it kept meanwhile are not taken twice."""
    cluster, primary = elected()
    behind = backup_of(cluster)
    cluster.drop = lambda source, target, header: (
        target == behind and isinstance(header, Prepare) and header.op in (2, 3)
    )
    for number in range(5):
        cluster.request(b"x", number=number)
    live = cluster.replicas[behind]
    assert live.future
    cluster.tick(30)
    assert live.op == primary.op
    assert not live.future
    cluster.heal()
    cluster.tick(30)
    assert live.commit_min == primary.commit_min


@pytest.mark.parametrize("hasty", [False, True])
def test_step_7_a_view_starts_only_when_every_body_is_durable(hasty):
    plant_bugs(start_view_before_repair=hasty)
    cluster, old = elected()
    candidate = cluster.replicas[(old.view + 1) % 3]
    cluster.isolate(candidate.replica_id)
    cluster.request(b"x")
    cluster.drop = lambda source, target, header: isinstance(header, Prepare)
    cluster.crash(old.replica_id)
    for _ in range(600):
        cluster.tick(1)
        if candidate.log_view == candidate.view > old.view:
            break
    cluster.settle()
    assert (candidate.status == Status.NORMAL) is hasty


def test_a_probe_timer_that_fires_in_peace_asks_nothing():
    cluster, primary = elected()
    cluster.tick(15)
    for replica in (primary, cluster.replicas[backup_of(cluster)]):
        replica.take_effects()
        new_view.on_request_start_view_timer(replica)
        assert replica.take_effects() == []


@pytest.mark.parametrize(("replica", "leads"), [(0, True), (1, False)])
def test_a_node_whose_data_group_still_rejoins_does_not_keep_the_lead(replica, leads):
    """D2: a wiped candidate neither votes nor merges, so its view would never start."""
    cluster = ScriptedCluster(group=1)
    for other in (1, 2, 0):
        cluster.replicas[other].on_enter_view(3, 0)
        cluster.execute(other)
    cluster.settle()
    cluster.crash(replica)
    cluster.wipe(replica)
    rejoining = cluster.start(replica, wiped=True)
    cluster.isolate(replica)
    # Views 3 and 6 belong to replica 0.
    rejoining.on_enter_view(6, 0)
    assert rejoining.status == Status.RECOVERING
    cluster.outputs.clear()
    cluster.tick(25)
    asked = [effect for source, effect in cluster.outputs if isinstance(effect, Abdicate)]
    assert bool(asked) is leads
    assert all("still rejoining in view 6" in effect.reason for effect in asked)
