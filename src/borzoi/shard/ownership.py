"""Which shard owns a partition: a function of its namespace and the number of shards.

Every shard computes the same result, so nothing has to be agreed on or stored. Starting with
another number of shards changes the owners; the files stay where they are.
"""

from typing import Final

from borzoi.model.namespace import Namespace, shard_of

#: Cached owners. The hash takes a few microseconds in Python, a lookup a twentieth of that.
REMEMBERED_MAX: Final = 65_536


class Ownership:
    """Looks up the owners of partitions, for one shard of several."""

    __slots__ = ("_owners", "count", "shard")

    def __init__(self, shard: int, count: int) -> None:
        assert 0 <= shard < count, "shards are numbered from 0"
        self.shard = shard
        self.count = count
        self._owners: dict[Namespace, int] = {}

    def owner_of(self, namespace: Namespace) -> int:
        owner = self._owners.get(namespace)
        if owner is None:
            if len(self._owners) >= REMEMBERED_MAX:
                self._owners.clear()
            owner = self._owners[namespace] = shard_of(namespace, self.count)
        return owner

    def is_own(self, namespace: Namespace) -> bool:
        return self.owner_of(namespace) == self.shard
