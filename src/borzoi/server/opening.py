"""Opens partitions by their settings: where they are, and everything opened for one."""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

from borzoi.model.namespace import Namespace
from borzoi.partitions.deduplication import Deduplicator
from borzoi.partitions.partition import Deletable, Partition
from borzoi.partitions.warming import warm
from borzoi.records.fresh_ids import FreshIds
from borzoi.security.encryption import Cipher
from borzoi.server.descriptor_limit import room_for_files
from borzoi.server.settings import Settings
from borzoi.shard.local_store import LocalPartitionStore
from borzoi.shard.partition_store import Place
from borzoi.shard.trash import Trash
from borzoi.storage.compressed import TwinOpener
from borzoi.storage.descriptors import Descriptors
from borzoi.storage.idle import IdleWork
from borzoi.storage.layout import TRASH, place_directory
from borzoi.storage.log import open_log
from borzoi.storage.media import Medium
from borzoi.storage.offsets import OffsetWriter, open_offsets
from borzoi.storage.settings import (
    Acknowledge,
    CacheIndexes,
    PartitionSettings,
    SegmentSettings,
)
from borzoi.storage.syncing import TimedSyncer
from borzoi.storage.uring import best_syncer
from borzoi.telemetry.durations import Ongoing

CACHES = {
    "all": CacheIndexes.ALL,
    "true": CacheIndexes.ALL,
    "open_segment": CacheIndexes.OPEN_SEGMENT,
    "none": CacheIndexes.NONE,
    "false": CacheIndexes.NONE,
}


def store_of(
    settings: Settings,
    directory: Path,
    medium: Medium,
    cipher: Cipher | None,
    acknowledge: Acknowledge,
    syncs: Ongoing,
    *,
    archived: Deletable | None = None,
    shard: int = 0,
    count: int = 1,
) -> LocalPartitionStore:
    """The store of the partitions below the data directory, as one of several shards uses it;
    `syncs` gets the times of its syncs.

    With `archived` only segments that it counts are ever deleted.
    """
    system = settings.system
    cache = CACHES[system.segment.cache_indexes]
    segment = SegmentSettings(system.segment.size, cache)
    partition = partition_settings(settings, acknowledge)
    room = room_for_files(count)
    syncer, descriptors = TimedSyncer(best_syncer(), syncs), Descriptors(medium, room.segments)
    twins = TwinOpener(descriptors)
    writer = OffsetWriter(
        medium, acknowledge, loop=asyncio.get_running_loop(), files_max=room.offsets
    )
    idle = IdleWork(asyncio.get_running_loop())
    new_ids = random_ids()
    deduplication = system.message_deduplication
    keep_unread = settings.data_maintenance.messages.consumer_barrier

    def open_partition(namespace: Namespace, folder: Path, generation: int) -> Partition:
        log = open_log(
            folder,
            medium,
            segment=segment,
            partition=partition,
            syncer=syncer,
            descriptors=descriptors,
            open_twin=twins,
            generation=generation,
            idle=idle,
        )
        deduplicator = None
        if deduplication.enabled:
            deduplicator = Deduplicator(deduplication.max_entries, deduplication.expiry)
            warm(deduplicator, log, now=time.time_ns() // 1000)
        return Partition(
            namespace,
            log,
            open_offsets(folder, writer),
            new_ids=new_ids,
            deduplicator=deduplicator,
            cipher=cipher,
            keep_unread=keep_unread,
            archived=archived,
        )

    trash = Trash(
        medium,
        directory / system.stream.path / TRASH,
        durable=system.state.enforce_fsync,
        shard=shard,
        count=count,
    )
    return LocalPartitionStore(
        medium, folders_of(settings, directory), open_partition, twins, trash
    )


def partition_settings(settings: Settings, acknowledge: Acknowledge) -> PartitionSettings:
    section = settings.system.partition
    return PartitionSettings(
        acknowledge,
        section.messages_required_to_save,
        section.size_of_messages_required_to_save,
        section.validate_checksum,
    )


def folders_of(settings: Settings, directory: Path) -> Callable[[Place], Path]:
    """Where streams, topics and partitions lie; the settings name the directories."""
    system = settings.system
    words = system.stream.path, system.topic.path, system.partition.path
    return lambda place: place_directory(directory, place, words)


def random_ids() -> FreshIds:
    """Ids for messages that come without one.

    They name messages and open nothing, so a generator that the system seeds is enough.
    """
    return FreshIds(os.urandom)
