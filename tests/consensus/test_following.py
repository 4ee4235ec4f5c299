"""The backup's side: what it takes, what it ignores, when it asks (N4-N8, V7)."""

import pytest
from tests.support.consensus_cluster import ScriptedCluster, elected
from tests.support.planted_bugs import plant_bugs

from borzoi.consensus import following
from borzoi.consensus.effects import Send
from borzoi.consensus.invariants import InvariantError
from borzoi.consensus.messages import Commit, Header, Prepare, PrepareOk, RequestStartView
from borzoi.consensus.replica import Replica


def backup_of(cluster: ScriptedCluster) -> int:
    primary = cluster.primary().replica_id
    return next(replica for replica in sorted(cluster.replicas) if replica != primary)


def elected_with_backup() -> tuple[ScriptedCluster, Replica, Replica]:
    """A cluster with its primary and a backup."""
    cluster, primary = elected()
    return cluster, primary, cluster.replicas[backup_of(cluster)]


def sends(cluster: ScriptedCluster, replica: int) -> list[Header]:
    effects = cluster.replicas[replica].take_effects()
    return [effect.header for effect in effects if isinstance(effect, Send)]


def heard_commit(cluster: ScriptedCluster) -> Commit:
    heard = cluster.watch(Commit)
    cluster.tick(12)
    cluster.heal()
    return heard[-1]


def test_a_repeated_prepare_is_acknowledged_again():
    """The first ack may be lost; the primary's resend asks for it."""
    cluster, primary = elected()
    cluster.request(b"x")
    backup = backup_of(cluster)
    header = primary.canon[2]
    body = primary.entries[header.checksum].body
    assert body is not None
    cluster.replicas[backup].take_effects()
    cluster.replicas[backup].on_frame(header, body)
    assert [type(sent) for sent in sends(cluster, backup)] == [PrepareOk]


def test_v7_a_frame_of_a_newer_view_is_answered_with_one_probe():
    cluster, primary = elected()
    backup = backup_of(cluster)
    newer = primary.canon[1]._replace(view=primary.view + 3)
    for _ in range(2):
        cluster.replicas[backup].on_frame(newer, b"")
    assert [type(sent) for sent in sends(cluster, backup)] == [RequestStartView]
    commit = heard_commit(cluster)._replace(view=primary.view + 6)
    cluster.replicas[backup].on_frame(commit, b"")
    assert RequestStartView in [type(sent) for sent in sends(cluster, backup)]


def test_d2_a_data_group_does_not_probe_for_views_its_node_has_not_reached():
    cluster = ScriptedCluster(group=1)
    cluster.settle()
    backup = cluster.replicas[1]
    backup.take_effects()
    backup.on_frame(backup.canon[0]._replace(view=9), b"")
    assert backup.take_effects() == []


@pytest.mark.parametrize("accepts", [False, True])
def test_n7_a_commit_number_of_another_view_teaches_nothing(accepts):
    plant_bugs(stale_commit_accepted=accepts)
    cluster, primary, backup = elected_with_backup()
    cluster.drop = lambda source, target, header: isinstance(header, PrepareOk)
    cluster.request(b"x")
    cluster.heal()
    stale = heard_commit(cluster)._replace(view=primary.view - 1, commit=2)
    backup.commit_max = backup.commit_min = 1
    backup.on_frame(stale, b"")
    assert (backup.commit_max == 2) is accepts


@pytest.mark.parametrize("accepts", [False, True])
def test_n4_a_prepare_of_an_older_view_never_becomes_the_head(accepts):
    plant_bugs(stale_prepare_accepted=accepts)
    _, primary, backup = elected_with_backup()
    head = backup.canon[backup.op]
    stale = head._replace(op=head.op + 1, view=primary.view - 1, parent=head.checksum)
    backup.on_frame(stale, b"")
    assert (backup.op == head.op + 1) is accepts


def test_a_primary_ignores_prepares_and_heartbeats_of_its_own_view():
    cluster, primary = elected()
    before = primary.op
    primary.on_frame(primary.canon[1]._replace(op=before + 1), b"")
    primary.on_frame(heard_commit(cluster), b"")
    assert primary.op == before


def test_a_commit_that_contradicts_the_log_stops_the_replica():
    cluster, _, backup = elected_with_backup()
    forged = heard_commit(cluster)
    newer = forged._replace(
        commit_checksum=b"another content!", timestamp_monotonic=forged.timestamp_monotonic + 1
    )
    with pytest.raises(Exception, match="committed with another content"):
        backup.on_frame(newer, b"")


def test_only_the_control_group_promises():
    cluster = ScriptedCluster(group=1)
    following.promise(cluster.replicas[1])
    assert cluster.replicas[1].promise_until == 0


def test_a_prepare_in_a_view_change_is_not_taken():
    cluster, primary = elected()
    cluster.request(b"x")
    primary.step_down()
    assert primary.status.name == "VIEW_CHANGE"
    before = dict(primary.entries)
    primary.on_frame(primary.canon[2], b"x")
    assert primary.entries == before
    assert isinstance(primary.canon[2], Prepare)


def test_a_stalled_disk_bounds_what_waits_for_it():
    cluster, primary = elected(pipeline_max=64)
    slow = backup_of(cluster)
    cluster.stuck_disks = {slow}
    for number in range(400):
        cluster.request(b"x", number=number)
    assert len(cluster.replicas[slow].journal_writes) == 256
    cluster.stuck_disks = set()
    cluster.tick(60)
    assert cluster.replicas[slow].durable_prefix == primary.op


def test_a_body_the_checkpoint_covers_is_not_journaled_again():
    cluster, primary = elected(checkpoint_interval=4, retain_ops=100)
    for number in range(6):
        cluster.request(b"x", number=number)
    cluster.tick(15)
    backup = cluster.replicas[backup_of(cluster)]
    header = backup.canon[2]
    del backup.entries[header.checksum]
    backup.take_effects()
    backup.on_frame(header, b"x")
    assert backup.take_effects() == []
    assert primary.checkpoint_op == 4


def test_a_prepare_of_this_view_that_does_not_continue_the_log_stops_the_replica():
    """A view has one primary, and that one chains: anything else means two histories."""
    _, primary, live = elected_with_backup()
    head = primary.canon[primary.op]
    stray = head._replace(op=head.op + 1, parent=b"another history!")
    with pytest.raises(InvariantError, match="does not continue the log of that view"):
        live.on_frame(stray, b"")


def test_a_commit_of_another_content_stops_the_replica():
    cluster, _, live = elected_with_backup()
    heard = heard_commit(cluster)
    other = heard._replace(
        timestamp_monotonic=heard.timestamp_monotonic + 1, commit_checksum=b"another history!"
    )
    with pytest.raises(InvariantError, match="committed with another content"):
        live.on_frame(other, b"")
