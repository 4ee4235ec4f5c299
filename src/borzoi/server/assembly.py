"""Builds the parts of a server from its settings: everything before it can listen."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec

from borzoi import __version__
from borzoi.archive.interface import Archive
from borzoi.diagnostics.host import Host
from borzoi.diagnostics.snapshots import Snapshots
from borzoi.handlers.authentication import Authentication
from borzoi.handlers.call import Services
from borzoi.handlers.consumer_quota import ConsumerQuota
from borzoi.handlers.sessions import Session, Sessions
from borzoi.memory.pool import MemoryPool
from borzoi.metadata import snapshot
from borzoi.metadata.commands import encode_command
from borzoi.metadata.effects import DroppedToken, DroppedUser, Effect
from borzoi.metadata.groups import ClientGone, VolatileCommand
from borzoi.metadata.machine import Entry, apply
from borzoi.metadata.state import Metadata
from borzoi.metadata.topics import TopicDefaults
from borzoi.metadata.users import root_creation
from borzoi.model.identifiers import ROOT_USER_ID
from borzoi.model.value import Value
from borzoi.security.encryption import Cipher
from borzoi.security.passwords import hash_password
from borzoi.security.throttle import Throttle
from borzoi.server.opening import folders_of, store_of
from borzoi.server.partition_limit import partitions_max
from borzoi.server.recreating import recreate
from borzoi.server.revoked_tokens import RevokedTokens, read_revoked_tokens
from borzoi.server.root_user import RootCredentials, root_credentials
from borzoi.server.settings import Settings
from borzoi.shard.cluster_nodes import ClusterNodes, Node, single_node
from borzoi.shard.metadata_plane import CarryOut, MetadataPlane, recovered_state
from borzoi.shard.partition_plane import PartitionPlane
from borzoi.shard.partition_store import PartitionStore
from borzoi.shard.partition_table import PartitionTable
from borzoi.shard.presence import (
    Presence,
    lost,
    partitions_of,
    read_presence,
    refuse_lost,
    touched,
)
from borzoi.shard.upkeep import Upkeep
from borzoi.storage.info import open_info
from borzoi.storage.local import LocalMedium
from borzoi.storage.media import Medium
from borzoi.storage.settings import Acknowledge
from borzoi.storage.state_log import RecoveredState, StateLog, StateSettings, open_state_log
from borzoi.telemetry.durations import Ongoing

log = logging.getLogger(__name__)

#: After a burst the pool keeps this much for the next one and returns the rest to the system.
POOL_KEEP_BYTES = 32 << 20

SECOND_US = 1_000_000

STORED_ROOT = "as it was stored"


class Root(Value):
    """Describe root for the banner; the password only if it was generated."""

    username: str
    source: str
    shown_password: str | None = None


class OpenedShard(msgspec.Struct):
    """Everything that every process of a server opens before it listens."""

    medium: Medium
    state: Metadata
    cipher: Cipher | None
    pool: MemoryPool
    acknowledge: Acknowledge
    #: Revoked HTTP tokens.
    revoked_tokens: RevokedTokens


class Opened(OpenedShard):
    """Everything that the process which writes the metadata opens in addition."""

    #: The effects of the log's entries.
    effects: Sequence[Effect]
    state_log: StateLog
    root: Root
    #: The last recorded list of partitions on the disk.
    presence: Presence | None
    #: The creation of root, in the state but not yet in the log; see `store_new_root`.
    new_root: Entry | None
    #: The streams were recreated from their folders; they are not in the log either.
    recreated: bool


def clock() -> int:
    """Microseconds since the epoch."""
    return time.time_ns() // 1000


def open_data(
    settings: Settings,
    directory: Path,
    *,
    environment: Mapping[str, str],
    default_credentials: bool,
    pool: MemoryPool | None = None,
) -> Opened:
    """Open the data directory: its description, its metadata, and root the first time."""
    system = settings.system
    medium = LocalMedium()
    cipher = Cipher(system.encryption.key) if system.encryption.enabled else None
    open_info(medium, directory, version=__version__, now=clock())
    state_log, recovered = open_state_log(
        medium, directory, StateSettings(enforce_fsync=system.state.enforce_fsync), cipher=cipher
    )
    try:
        credentials = partial(
            root_credentials, environment, default_credentials=default_credentials
        )
        buffers = pool_of(settings) if pool is None else pool
        return _opened(
            settings, directory, medium, cipher, state_log, recovered, credentials, buffers
        )
    except BaseException:
        state_log.close()
        raise


def _opened(
    settings: Settings,
    directory: Path,
    medium: Medium,
    cipher: Cipher | None,
    state_log: StateLog,
    recovered: RecoveredState,
    credentials_of_root: Callable[[], RootCredentials],
    pool: MemoryPool,
) -> Opened:
    """Replay the metadata log."""
    system = settings.system
    presence = read_presence(medium, directory)
    effects: list[Effect] = []
    unsettled: list[Effect] = []
    state = recovered_state(
        recovered,
        effects,
        settled_index=-1 if presence is None else presence.index,
        unsettled=unsettled,
    )
    # Root alone counts as empty: a start that was recreating streams may have been killed.
    unused = recovered.snapshot is None and len(recovered.entries) <= 1
    recreated = unused and recreate(state, directory, system, topic_defaults(settings), at=clock())
    if not recreated:
        _refuse_lost_partitions(settings, directory, medium, presence, state, unsettled)
    new_root: Entry | None = None
    if ROOT_USER_ID in state.users:
        root = Root(state.users[ROOT_USER_ID].username, STORED_ROOT)
    else:
        credentials = credentials_of_root()
        command = root_creation(credentials.username, hash_password(credentials.password))
        new_root = Entry(clock(), ROOT_USER_ID, command)
        apply(state, new_root)
        shown = credentials.password if credentials.show else None
        root = Root(credentials.username, credentials.source, shown)
    if recreated:
        log.warning(
            "the metadata log was missing; recreated %d streams",
            len(state.streams),
        )
    revoked_tokens = RevokedTokens(
        medium, directory, read_revoked_tokens(medium, directory, now=clock() // SECOND_US)
    )
    return Opened(
        medium=medium,
        state=state,
        effects=effects,
        state_log=state_log,
        cipher=cipher,
        pool=pool,
        root=root,
        acknowledge=acknowledge_of(settings),
        revoked_tokens=revoked_tokens,
        presence=presence,
        new_root=new_root,
        recreated=recreated,
    )


def pool_of(settings: Settings, *, shards: int = 1, arena: int | None = None) -> MemoryPool:
    """Create the memory pool of one shard; `arena` is the memory file that the others map."""
    pooling = settings.system.memory_pool
    if not pooling.enabled:
        return MemoryPool.disabled()
    return MemoryPool(
        pooling.size // shards, bucket_capacity=pooling.bucket_capacity, descriptor=arena
    )


def store_new_root(opened: Opened) -> None:
    """Log the creation of root, if this start created it.

    Only once a random password was printed: root would be locked out if the start failed between
    the two.
    """
    if opened.new_root is not None:
        code, encoded = encode_command(opened.new_root.command)
        opened.state_log.append(
            timestamp=opened.new_root.at, user_id=ROOT_USER_ID, code=code, command=encoded
        )
    if opened.recreated:
        opened.state_log.take_snapshot(snapshot.encode(opened.state), timestamp=clock())


def _refuse_lost_partitions(
    settings: Settings,
    directory: Path,
    medium: Medium,
    presence: Presence | None,
    state: Metadata,
    unsettled: Sequence[Effect],
) -> None:
    """Raise if partitions that were on the disk have lost their directory."""
    expected = partitions_of(state)
    folders = folders_of(settings, directory)
    there = {one for one in expected if medium.exists(folders(one))}
    missing = lost(presence, expected, set(touched(unsettled)), there)
    refuse_lost(missing, [folders(one) for one in missing], directory)


def topic_defaults(settings: Settings) -> TopicDefaults:
    system = settings.system
    return TopicDefaults(
        segment_size=system.segment.size,
        message_expiry=system.topic.message_expiry,
        max_topic_size=system.topic.max_size,
    )


def acknowledge_of(settings: Settings) -> Acknowledge:
    partition = settings.system.partition
    return Acknowledge.SYNCED if partition.enforce_fsync else Acknowledge(partition.acknowledge)


def services_of(
    settings: Settings,
    directory: Path,
    opened: Opened,
    *,
    follower: bool,
    archiver: Archive | None = None,
) -> Services:
    """Build the planes and everything else that handlers use."""
    syncs = Ongoing()
    table, upkeep, store = partitions_of_disk(settings, directory, opened, archiver, syncs)
    partitions = PartitionPlane(table, upkeep, store)
    partitions.finish_deletions(opened.effects, opened.state)
    table.open_all(opened.state)
    metadata = metadata_plane(settings, opened)
    sessions, consumer_quota = Sessions(), ConsumerQuota()
    carry_out = effects_on(partitions, sessions, consumer_quota)
    metadata.bind_effects(carry_out, partitions.clear_target)
    return Services(
        metadata=metadata,
        partitions=partitions,
        sessions=sessions,
        authentication=authentication(),
        host=Host(directory),
        consumer_quota=consumer_quota,
        cluster=cluster_nodes(settings, follower=follower),
        snapshots=snapshots(settings, directory),
        tokens_max=settings.personal_access_token.max_tokens_per_user,
        clock=clock,
        polled_bytes_max=settings.system.partition.max_poll_size,
        syncs=syncs,
    )


def partitions_of_disk(
    settings: Settings,
    directory: Path,
    opened: OpenedShard,
    archiver: Archive | None,
    syncs: Ongoing,
    *,
    shard: int = 0,
    count: int = 1,
) -> tuple[PartitionTable, Upkeep, PartitionStore]:
    """Create the partition plane of one shard; no partition is open yet."""
    archive_expired = settings.system.segment.archive_expired
    store = store_of(
        settings,
        directory,
        opened.medium,
        opened.cipher,
        opened.acknowledge,
        syncs,
        archived=archiver.deletable if archiver and archive_expired else None,
        shard=shard,
        count=count,
    )
    table = PartitionTable(store, partitions_max())
    return table, Upkeep(table, store), store


def metadata_plane(settings: Settings, opened: Opened) -> MetadataPlane:
    return MetadataPlane(
        opened.state,
        opened.state_log,
        defaults=topic_defaults(settings),
        clock=clock,
        sync_each=settings.system.state.enforce_fsync,
    )


def effects_on(
    partitions: PartitionPlane, sessions: Sessions, consumer_quota: ConsumerQuota
) -> CarryOut:
    """Return the function that carries out effects of metadata changes in this process."""

    async def carry_out(effect: Effect) -> Sequence[VolatileCommand]:
        consumer_quota.carry_out(effect)
        match effect:
            case DroppedUser(user_id):
                dropped = sessions.of_user(user_id)
            case DroppedToken():
                dropped = sessions.of_token(effect.token_hash)
            case _:
                return await partitions.carry_out(effect)
        hang_up(dropped)
        # They leave their groups in the same step, so that no later request sees them there.
        # Stale sessions have left theirs before, and their ids may already be in use again.
        return [ClientGone(session.client_id) for session in dropped if not session.stale]

    return carry_out


def authentication() -> Authentication:
    # Monotonic: setting the wall clock back must not extend a lockout.
    return Authentication(Throttle(), lambda: time.monotonic_ns() // 1000)


def snapshots(settings: Settings, directory: Path) -> Snapshots:
    system = settings.system
    return Snapshots(
        directory,
        directory / system.logging.path,
        directory / system.runtime.path / "current_config.toml",
    )


def hang_up(sessions: Sequence[Session]) -> None:
    """End sessions whose user or token was deleted: they are unauthenticated from then on."""
    for session in sessions:
        session.user_id = None
        session.token_hash = None
        session.hang_up()


def cluster_nodes(settings: Settings, *, follower: bool) -> ClusterNodes:
    """Return the nodes of the configuration, or this one alone."""
    own_ports = {
        name: getattr(settings, name).address[1]
        for name in ("tcp", "quic", "http", "websocket")
        if getattr(settings, name).enabled
    }
    cluster = settings.cluster
    if not cluster.enabled:
        return single_node(settings.tcp.address[0], own_ports)
    return ClusterNodes(
        cluster.name,
        Node(cluster.node.current.name, cluster.node.current.ip, **own_ports),
        [
            Node(
                node.name,
                node.ip,
                node.ports.tcp,
                node.ports.quic,
                node.ports.http,
                node.ports.websocket,
            )
            for node in cluster.node.others
        ],
        follower=follower,
    )
