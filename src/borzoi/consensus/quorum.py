"""How many replicas must agree (Q1)."""

from typing import NamedTuple

from borzoi.consensus.invariants import invariant

REPLICAS_MAX = 7


class Quorums(NamedTuple):
    """``replication + view_change > n`` and ``replication + nack > n`` always hold."""

    replication: int
    view_change: int
    nack: int


def quorums(replica_count: int) -> Quorums:
    """Flexible quorums: commits never need more than three disks, view changes pay for it."""
    invariant(1 <= replica_count <= REPLICAS_MAX, "a cluster has 1 to 7 replicas")
    if replica_count == 2:
        return Quorums(replication=2, view_change=2, nack=1)
    replication = min(3, (replica_count + 1) // 2)
    rest = replica_count - replication + 1
    return Quorums(replication=replication, view_change=rest, nack=rest)


def members(bitset: int) -> int:
    """How many replicas are in a bitset."""
    return bitset.bit_count()
