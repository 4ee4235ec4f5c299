"""Which member of a group reads which partition; plain functions over member positions.

There are two ways: a *deal* reassigns everything; a *levelling* takes from members with more than
their share and leaves the rest in place.
"""

from collections.abc import Sequence
from typing import NamedTuple


class Move(NamedTuple):
    """A partition that is to change hands; members are given by their position in the list."""

    partition_id: int
    source: int | None
    target: int


def deal(partition_ids: Sequence[int], members_count: int) -> list[list[int]]:
    """Each partition in turn to the next member."""
    return [list(partition_ids[member::members_count]) for member in range(members_count)]


def quotas(sizes: Sequence[int], partitions_count: int) -> list[int]:
    """How many partitions each member is to have: as equal as can be, taking as few as possible.

    What remains after equal shares goes, one each, first to members who already have more than
    their share (each such one saves a move) and then to the others, in member order.
    """
    share, rest = divmod(partitions_count, len(sizes))
    by_claim = sorted(range(len(sizes)), key=lambda member: sizes[member] <= share)
    wanted = [share] * len(sizes)
    for member in by_claim[:rest]:
        wanted[member] += 1
    return wanted


def levelling(held: Sequence[Sequence[int]], unowned: Sequence[int]) -> list[Move]:
    """The moves after which every member has its quota; nothing moves that need not.

    Partitions are taken from the end of a member's list, so the caller says by the order what is
    given up most easily. Unowned partitions are handed out before any is taken away.
    """
    wanted = quotas(
        [len(partitions) for partitions in held],
        sum(len(partitions) for partitions in held) + len(unowned),
    )
    surplus: list[tuple[int, int | None]] = [(partition_id, None) for partition_id in unowned]
    targets: list[int] = []
    for member, partitions in enumerate(held):
        surplus += [
            (partition_id, member) for partition_id in reversed(partitions[wanted[member] :])
        ]
        targets += [member] * (wanted[member] - len(partitions))
    return [
        Move(partition_id, source, target)
        for (partition_id, source), target in zip(surplus, targets, strict=True)
    ]
