"""Numbered things with a second key: how streams, topics, groups, users and members get their ids.

Ids start at 0. A freed id is given out again, the most recently freed first, as the published
servers do; clients and directories see the difference.
"""

from typing import Generic, TypeVar

from borzoi.model.errors import StateCorrupted

Key = TypeVar("Key", str, int)
Item = TypeVar("Item")


class Slots(dict[int, Item], Generic[Key, Item]):
    """A dict from id to item that also finds items by key and knows which ids are free.

    Invariants (see `check`): the ids in use and the freed ones together are 0..n-1, without
    overlap, and every item has exactly one key.
    """

    __slots__ = ("freed", "ids")

    def __init__(self) -> None:
        super().__init__()
        #: Id of each item by its key.
        self.ids: dict[Key, int] = {}
        #: Ids that were in use once, in the order they were freed.
        self.freed: list[int] = []

    @property
    def next_id(self) -> int:
        """The id that the next item will get."""
        return self.freed[-1] if self.freed else len(self)

    def add(self, key: Key, item: Item) -> int:
        """Puts the item, which must carry `next_id`, into its place; the key must be free."""
        item_id = self.next_id
        if self.freed:
            self.freed.pop()
        self[item_id] = item
        self.ids[key] = item_id
        return item_id

    def remove(self, key: Key) -> Item:
        """Takes the item with this key out and frees its id."""
        item_id = self.ids.pop(key)
        self.freed.append(item_id)
        return self.pop(item_id)

    def rename(self, old: Key, new: Key) -> None:
        """Gives an item another key, which must be free or its own."""
        self.ids[new] = self.ids.pop(old)

    def named(self, key: Key) -> Item | None:
        """The item with this key."""
        item_id = self.ids.get(key)
        return None if item_id is None else self[item_id]

    def in_order(self) -> list[Item]:
        """The items by ascending id, which is the order of every list a client sees."""
        return [self[item_id] for item_id in sorted(self)]

    def restore(self, item_id: int, key: Key, item: Item) -> None:
        """Puts an item under an id it had before; `freed` or `fill_gaps` has to follow."""
        if item_id in self or key in self.ids:
            raise StateCorrupted(f"id {item_id} or key {key!r} is there twice")
        self[item_id] = item
        self.ids[key] = item_id

    def fill_gaps(self) -> None:
        """Frees every id below the highest that is not in use, for items from elsewhere."""
        gaps = set(range(max(self, default=-1) + 1)).difference(self)
        self.freed = sorted(gaps, reverse=True)

    def check(self) -> None:
        """Raises `StateCorrupted` when an invariant does not hold."""
        if sorted([*self, *self.freed]) != list(range(len(self) + len(self.freed))):
            raise StateCorrupted(f"ids in use {sorted(self)} and freed {self.freed} do not add up")
        if sorted(self.ids.values()) != sorted(self):
            raise StateCorrupted(f"keys {self.ids} do not name the ids {sorted(self)}")
