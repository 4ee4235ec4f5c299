# Made by tools/unasync.py from src/borzoi/client/_async/sharing.py: edit that one.
"""Which partitions a consumer reads, alone or as a member of a group, and its stored offsets.

A membership belongs to a connection. When the connection was lost, other members may have had the
partitions in the meantime, so the consumer discards what it knew: it looks up its partitions and
the stored offsets of the group before it polls or commits anything.
"""

import time
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final

from borzoi.client._colours import tell
from borzoi.client._sync.administration import Administration
from borzoi.client._sync.messaging import Messaging
from borzoi.client.consuming import Begin, ConsumerProgress, Consuming, Place
from borzoi.client.reconnection import REPEATS_MAX
from borzoi.model.consuming import Consumer, ConsumerKind
from borzoi.model.errors import (
    ConnectionLost,
    ConsumerNotResolved,
    Disconnected,
    GroupNameTaken,
    GroupNotFound,
    InvalidOffset,
    MemberNotFound,
)
from borzoi.model.identifiers import Identifier
from borzoi.protocol.commands.groups import GroupMember
from borzoi.protocol.commands.offsets import StoreConsumerOffset

#: How often a member of a group checks for a rebalance.
LOOK_SECONDS: Final = 0.5

#: An offset that no partition has, so that a server can only reject it.
OFFSET_NOWHERE: Final = 2**64 - 1


class Both(Administration, Messaging):
    """The part of a client that a consumer uses: both kinds of commands."""


class Share:
    """The partitions of one consumer; their places are those of its `ConsumerProgress`."""

    def __init__(
        self,
        client: Both,
        topic: tuple[Identifier, Identifier],
        how: Consuming,
        progress: ConsumerProgress,
        *,
        on_assigned: Callable[[tuple[int, ...]], Any] | None,
        on_revoked: Callable[[tuple[int, ...]], Any] | None,
    ) -> None:
        self._client = client
        self._topic = topic
        self._how = how
        self._progress = progress
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        #: The connection on which the assignment was looked up.
        self._generation = -1
        #: Members of the group at that time; a group that we joined is never empty.
        self._members: tuple[GroupMember, ...] = ()
        self._looked_at = 0.0
        self.is_open = False

    @property
    def identity(self) -> dict[str, Any]:
        """The arguments that name this consumer to the commands about messages and offsets."""
        if self._how.group is not None:
            return {"group": self._how.group}
        return {"consumer": 0 if self._how.name is None else self._how.name}

    @property
    def is_known(self) -> bool:
        """Whether the assignment was looked up on the present connection."""
        return self.is_open and self._generation == self._client._session.generation

    def forget(self) -> None:
        """Invalidate the assignment: look it up again before anything else."""
        self._generation = -1
        self._members = ()

    def look(self) -> None:
        """Look up which partitions to read: at the start, on a new connection, and in a group at
        regular intervals."""
        generation = self._client._session.generation
        is_known = self.is_known
        if is_known and self._how.group is None:
            return
        now = time.monotonic()
        if is_known and now - self._looked_at < LOOK_SECONDS:
            return
        if not self.is_open and self._how.group is not None:
            self._join(self._how.group)
        self.is_open = True
        members: tuple[GroupMember, ...] = ()
        wanted: set[int] | None
        if self._how.group is not None:
            members, wanted = self._assigned(self._how.group, is_known=is_known)
        else:
            wanted = self._chosen()
        if wanted is not None:
            # If interrupted from here on, the lookup has to be repeated.
            self._members = ()
            self._own(wanted, is_known=is_known)
        if generation == self._client._session.generation:
            self._generation, self._members, self._looked_at = generation, members, now
        # Otherwise the client has reconnected since the lookup began: repeat it.

    def rejoin(self) -> None:
        """Rejoin after the server has dropped the membership."""
        assert self._how.group is not None
        self._client.join_consumer_group(self._topic, self._how.group)
        self.forget()

    def leave(self) -> None:
        if self._how.group is not None:
            try:
                self._client.leave_consumer_group(self._topic, self._how.group)
            except (MemberNotFound, GroupNotFound):
                pass

    def has_first(self) -> bool:
        """Whether partition 0 is ours.

        A poll cannot tell: a member without a partition, or that polls one of another member, gets
        the answer of an empty partition 0. Storing an offset that does not exist can: only the
        owner's attempt is rejected because of the offset.
        """
        request = self._storing(0, OFFSET_NOWHERE)
        try:
            self._client._do(request, None)
        except ConsumerNotResolved:
            return False
        except InvalidOffset:
            pass
        return True

    def offset_at(self, partition: int, where: Begin) -> int:
        """The offset that a place in a partition stands for now."""
        if isinstance(where, int):
            return where
        if where == "earliest":
            return 0
        if isinstance(where, datetime):
            found = self._client.poll_messages(
                self._topic, partition=partition, start=where, count=1, **self.identity
            )
            if found:
                return found[0].offset
        last = self._client.poll_messages(
            self._topic, partition=partition, start="last", count=1, **self.identity
        )
        return last[0].offset + 1 if last else 0

    def store(self) -> None:
        """Commit processed offsets of the partitions that we still own."""
        for _ in range(REPEATS_MAX):
            if not any(True for _ in self._progress.to_store()):
                return
            self.look()
            if self.is_known:
                try:
                    self._store(list(self._progress.to_store()))
                except ConnectionLost:
                    if self.is_known:
                        raise
        raise Disconnected("the connection was lost repeatedly while offsets were stored")

    # ---- partitions -----------------------------------------------------------------------------

    def _join(self, group: Identifier) -> None:
        if isinstance(group, str):
            try:
                self._client.create_consumer_group(self._topic, group)
            except GroupNameTaken:
                pass
        self._client.join_consumer_group(self._topic, group)

    def _chosen(self) -> set[int]:
        if self._how.partitions is not None:
            return set(self._how.partitions)
        return set(range(self._client._partitions_count(self._topic)))

    def _assigned(
        self, group: Identifier, *, is_known: bool
    ) -> tuple[tuple[GroupMember, ...], set[int] | None]:
        """Return the member count of the group and the partitions of this member; None for the
        partitions if nothing has changed."""
        details = self._client.get_consumer_group(self._topic, group)
        if details is None:
            raise GroupNotFound(f"the group {group!r} was deleted")
        if is_known and details.members == self._members:
            return details.members, None
        # A poll without a partition goes to each of ours in turn, and its answer names it.
        found: set[int] = set()
        for _ in range(details.partitions_count):
            polled = self._client.poll_raw(self._topic, group=group, count=0)
            if polled.partition_id in found:
                break
            found.add(polled.partition_id)
        if found == {0} and not self.has_first():
            found.clear()
        return details.members, found

    def _own(self, wanted: set[int], *, is_known: bool) -> None:
        """Read exactly these partitions, and report the changes to the callbacks."""
        progress = self._progress
        if not is_known:
            # Other members may have read on while we were disconnected.
            for partition in progress.owned():
                progress.catch_up(partition, self._stored_offset(partition))
        self._give_up(progress.places.keys() - wanted)
        assigned = tuple(sorted(wanted - progress.places.keys()))
        begins = []
        for partition in assigned:
            stored = self._stored_offset(partition)
            position = self.offset_at(partition, self._how.begin) if stored is None else stored + 1
            begins.append((partition, position, stored))
        for begin in begins:
            progress.own(*begin)
        if assigned:
            tell(self._on_assigned, assigned)

    def _give_up(self, partitions: Iterable[int]) -> None:
        revoked = tuple(sorted(partitions))
        if not revoked:
            return
        tell(self._on_revoked, revoked)
        try:
            if self._how.stores_by_itself:
                self._store([p for p in self._progress.to_store() if p.partition in revoked])
        finally:
            self._progress.disown(revoked)

    # ---- offsets --------------------------------------------------------------------------------

    def _storing(self, partition: int, offset: int) -> StoreConsumerOffset:
        if self._how.group is not None:
            consumer = Consumer(ConsumerKind.GROUP, self._how.group)
        else:
            consumer = Consumer(ConsumerKind.CONSUMER, self._how.name or 0)
        return StoreConsumerOffset(consumer, *self._topic, partition, offset)

    def _stored_offset(self, partition: int) -> int | None:
        if not self._how.keeps_offsets:
            return None
        stored = self._client.get_consumer_offset(self._topic, partition=partition, **self.identity)
        return None if stored is None else stored.stored_offset

    def _store(self, places: Iterable[Place]) -> None:
        """Raise `ConnectionLost` if the connection of the assignment is lost: on another one we
        could overwrite the offset of a new owner."""
        generation = self._client._session.generation
        for place in places:
            done = place.done
            assert done is not None
            request = self._storing(place.partition, done)
            try:
                self._client._do(request, None, generation=generation)
            except (ConsumerNotResolved, MemberNotFound):
                # Another member has the partition now, and continues from the stored offset.
                self.forget()
            except InvalidOffset:
                # The partition was purged, and with it what we have read.
                place.done = None
            place.stored = done
