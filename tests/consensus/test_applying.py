"""Committed ops into machine and table (N7, C1)."""

from tests.support.consensus_cluster import ScriptedCluster, client_id, elected

from borzoi.consensus.effects import Applied
from borzoi.consensus.messages import Operation

ADA = client_id(1)


def alone_after(requests: int) -> ScriptedCluster:
    """A cluster of one replica that has taken this many requests."""
    cluster, _ = elected(1)
    for number in range(requests):
        cluster.request(b"%d" % number, number=number)
    return cluster


def test_ops_are_applied_in_order_and_once_on_every_replica():
    cluster, _ = elected()
    for number in range(6):
        cluster.request(b"%d" % number, number=number, settle=False)
    cluster.settle()
    cluster.tick(20)
    for replica in cluster.replicas:
        ops = [e.op for at, e in cluster.outputs if at == replica and isinstance(e, Applied)]
        assert ops == list(range(1, 8))


def test_noops_and_sessions_never_reach_the_machine():
    cluster, primary = elected()
    cluster.request(b"", client=ADA, operation=Operation.REGISTER.value)
    cluster.request(b"", client=ADA, number=1, operation=Operation.UNREGISTER.value)
    assert cluster.applied(primary.replica_id) == []
    assert len(primary.client_table) == 0


def test_a_restart_replays_from_disk_ahead_of_need():
    cluster = alone_after(100)
    cluster.crash(0)
    cluster.start(0)
    cluster.elect()
    assert cluster.applied(0) == [b"%d" % number for number in range(100)]


def test_bodies_leave_memory_after_they_are_applied_and_durable():
    live = alone_after(200).primary()
    held = sum(entry.body is not None for entry in live.entries.values())
    assert held < 80


def test_a_request_queued_while_the_log_is_replayed_is_executed_after_it():
    """Found by a seed: the queue was not drained when a journal read ended the replay."""
    cluster = alone_after(20)
    cluster.crash(0)
    live = cluster.start(0)
    for _ in range(100):
        if live.is_primary:
            break
        cluster.sync(0)
    cluster.request(b"late", number=99)
    assert cluster.applied(0)[-1] == b"late"
