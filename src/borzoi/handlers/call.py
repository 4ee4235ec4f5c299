"""Everything a handler may use: the session of the request, the planes, and the clock."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from borzoi.diagnostics.host import Host
from borzoi.diagnostics.snapshots import Snapshots
from borzoi.handlers.authentication import Authentication
from borzoi.handlers.consumer_quota import ConsumerQuota
from borzoi.handlers.neighbours import Neighbours
from borzoi.handlers.sessions import Session, Sessions
from borzoi.handlers.waiting import Waits
from borzoi.metadata.commands import Command
from borzoi.metadata.effects import ApplyResult, Created
from borzoi.metadata.guards import Allowed, CallerIs, Guard, check
from borzoi.metadata.proposals import Proposal
from borzoi.metadata.state import Metadata, Stream, Topic, User
from borzoi.model.errors import StateCorrupted, Unauthenticated
from borzoi.model.limits import POLLED_BYTES_MAX
from borzoi.model.value import Value
from borzoi.shard.cluster_nodes import ClusterNodes
from borzoi.shard.partition_plane import PartitionPlane
from borzoi.telemetry.durations import Ongoing


class MetadataDoor(Protocol):
    """The metadata, whether this process writes them (`shard/metadata_plane.py`) or has a copy
    (`shard/metadata_copy.py`)."""

    state: Metadata
    #: Counts changes that are logged.
    revision: int
    #: Counts changes of memberships.
    membership_revision: int

    async def submit(self, proposal: Proposal) -> ApplyResult:
        """Make a change; returns when every reader sees it."""

    def close(self) -> None: ...


class Services(Value):
    """The services that all calls of one shard share."""

    metadata: MetadataDoor
    partitions: PartitionPlane
    sessions: Sessions
    authentication: Authentication
    consumer_quota: ConsumerQuota
    host: Host
    cluster: ClusterNodes
    snapshots: Snapshots
    #: Personal access tokens one user may have.
    tokens_max: int
    #: Microseconds since the epoch.
    clock: Callable[[], int]
    #: Maximum bytes of one poll.
    polled_bytes_max: int = POLLED_BYTES_MAX
    #: Polls that wait for messages.
    waits: Waits = msgspec.field(default_factory=Waits)
    #: How long syncs took, and how many are in flight.
    syncs: Ongoing = msgspec.field(default_factory=Ongoing)
    #: The other shards, where there are any.
    neighbours: Neighbours | None = None


class Call(Value):
    """One request's surroundings."""

    session: Session
    services: Services
    #: The user that was logged in when the request arrived.
    caller: User | None = None
    #: The permission that was checked on arrival, and that a change needs again in its turn.
    allowed: Allowed | None = None
    #: What that permission was checked for. It holds until the handler waits for something.
    stream: Stream | None = None
    topic: Topic | None = None

    @property
    def metadata(self) -> MetadataDoor:
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

    def check_permitted(self) -> None:
        """Raise unless the permission that was checked on arrival still holds."""
        caller = self.caller
        if caller is None or self.session.user_id != caller.id:
            raise Unauthenticated("the user of this session was deleted")
        check(self.state, CallerIs(caller.birth), caller_id=caller.id)
        if self.allowed is not None:
            check(self.state, self.allowed, caller_id=caller.id)

    async def submit(self, command: Command, *guards: Guard) -> ApplyResult:
        """Propose a change in the caller's name.

        Much can happen before its turn comes: the caller is deleted and its id given to another
        user, the permission is withdrawn, a name moves to another stream. The guards cover that.
        """
        caller = self.caller
        if caller is None or self.session.user_id != caller.id:
            raise Unauthenticated("the user of this session was deleted")
        own: tuple[Guard, ...] = (CallerIs(caller.birth),)
        if self.allowed is not None:
            own += (self.allowed,)
        return await self.metadata.submit(Proposal(command, caller.id, own + guards))

    async def create(self, command: Command, *guards: Guard) -> Created:
        """Propose a creation; return what it created."""
        outcome = await self.submit(command, *guards)
        if outcome.created is None:
            raise StateCorrupted(f"{type(command).__name__} created nothing")
        return outcome.created

    def now(self) -> int:
        return self.services.clock()
