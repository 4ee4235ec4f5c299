"""All that a handler may touch: the session that asks, the planes, and the clock."""

from collections.abc import Callable
from typing import Any

import msgspec

from borzoi.diagnostics.host import Host
from borzoi.diagnostics.snapshots import Snapshots
from borzoi.handlers.authentication import Authentication
from borzoi.handlers.sessions import Session, Sessions
from borzoi.metadata.commands import Command
from borzoi.metadata.effects import Outcome
from borzoi.metadata.state import Metadata, User
from borzoi.model.errors import Unauthenticated
from borzoi.model.users import UserStatus
from borzoi.shard.cluster_nodes import ClusterNodes
from borzoi.shard.metadata_plane import MetadataPlane
from borzoi.shard.partition_plane import PartitionPlane


class Services(msgspec.Struct, frozen=True):
    """What all calls of one shard share."""

    metadata: MetadataPlane
    partitions: PartitionPlane
    sessions: Sessions
    authentication: Authentication
    host: Host
    cluster: ClusterNodes
    snapshots: Snapshots
    #: Personal access tokens one user may have.
    tokens_max: int
    #: Microseconds since the epoch.
    clock: Callable[[], int]


def permitted_to_all(call: "Call") -> None:
    """Raises nothing: the request needs no permission."""


class Call(msgspec.Struct, frozen=True):
    """One request's surroundings."""

    session: Session
    services: Services
    #: Who was logged in when the request came.
    asker: User | None = None
    #: Raises unless the asker may do what is asked for, as things are now.
    permit: Callable[[Any], None] = permitted_to_all

    @property
    def metadata(self) -> MetadataPlane:
        return self.services.metadata

    @property
    def state(self) -> Metadata:
        """The metadata as this shard knows it; to be read, never changed."""
        return self.services.metadata.state

    @property
    def partitions(self) -> PartitionPlane:
        return self.services.partitions

    @property
    def user_id(self) -> int:
        """The user of a session that is logged in."""
        if self.session.user_id is None:
            raise Unauthenticated("log in first")
        return self.session.user_id

    @property
    def user(self) -> User | None:
        return self.state.users.get(self.user_id)

    async def submit(
        self, command: Command, *, provided: Callable[[], None] | None = None
    ) -> Outcome:
        """Make a change in the caller's name, if the caller is still there and may still make it
        when its turn comes, and if `provided` raises nothing then."""
        return await self.metadata.submit(
            command, user_id=self.user_id, provided=self._still(provided)
        )

    async def create(self, command: Command) -> int:
        """The id of what the command creates."""
        return await self.metadata.create(command, user_id=self.user_id, provided=self._still(None))

    def _still(self, provided: Callable[[], None] | None) -> Callable[[], None]:
        def check() -> None:
            # Much may happen before a turn comes: a user is deleted, its number is somebody
            # else's, a permission is taken away, a name is that of another stream. That the
            # session is logged in proves nothing: one that hung up is not logged out any more.
            asker = self.asker
            if (
                asker is None
                or self.session.user_id != asker.id
                or self.state.users.get(asker.id) is not asker
                or asker.status is not UserStatus.ACTIVE
            ):
                raise Unauthenticated("the user of this session is gone")
            self.permit(self)
            if provided is not None:
                provided()

        return check

    def now(self) -> int:
        return self.services.clock()
