"""All that a handler may touch: the session that asks, the planes, and the clock."""

from collections.abc import Callable
from dataclasses import dataclass

from borzoi.handlers.authentication import Authentication
from borzoi.handlers.sessions import Session, Sessions
from borzoi.metadata.state import Metadata, User
from borzoi.model.errors import Unauthenticated
from borzoi.shard.cluster_nodes import ClusterNodes
from borzoi.shard.host import Host
from borzoi.shard.metadata_plane import MetadataPlane
from borzoi.shard.partition_plane import PartitionPlane
from borzoi.shard.snapshots import Snapshots


@dataclass(frozen=True, slots=True)
class Services:
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


@dataclass(frozen=True, slots=True)
class Call:
    """One request's surroundings."""

    session: Session
    services: Services

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

    def now(self) -> int:
        return self.services.clock()
