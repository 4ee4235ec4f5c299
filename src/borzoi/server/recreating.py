"""Recreates streams from their folders when the metadata log is lost and the messages are not.

Names, users, groups and topic settings are lost with the log; streams, topics, partitions and
their messages are found by their ids. This is only done if a setting enables it: a server that
silently started empty would reuse the ids and mix new data with old.
"""

from collections.abc import Iterator
from pathlib import Path

from borzoi.metadata.state import Metadata, PartitionRecord, Stream, Topic
from borzoi.metadata.topics import TopicDefaults
from borzoi.model.errors import InvalidConfiguration
from borzoi.model.topics import Compression
from borzoi.server.settings import SystemSection


def recreate(
    state: Metadata, directory: Path, system: SystemSection, defaults: TopicDefaults, *, at: int
) -> bool:
    """Add the streams that have folders to an empty state; return whether there were any."""
    streams = dict(_numbered(directory / system.stream.path))
    if not streams:
        return False
    if not system.recovery.recreate_missing_state:
        raise InvalidConfiguration(
            f"{directory} holds {len(streams)} streams but no metadata log (state.messages);"
            " restore it from a backup, or set system.recovery.recreate_missing_state = true to"
            " name streams and topics after their folders (users, groups and settings are lost),"
            " or start with --fresh to delete everything"
        )
    for stream_id, folder in streams.items():
        stream = Stream(stream_id, f"stream-{stream_id}", at)
        for topic_id, inner in _numbered(folder / system.topic.path):
            partitions = [number for number, _ in _numbered(inner / system.partition.path)]
            count = max(partitions, default=-1) + 1
            topic = Topic(
                topic_id,
                f"topic-{topic_id}",
                at,
                Compression.NONE,
                defaults.message_expiry,
                defaults.max_topic_size,
                defaults.replication_factor,
                {number: PartitionRecord(number, at) for number in range(count)},
            )
            stream.topics.restore(topic_id, topic.name, topic)
        stream.topics.fill_gaps()
        state.streams.restore(stream_id, stream.name, stream)
    state.streams.fill_gaps()
    state.check()
    return True


def _numbered(folder: Path) -> Iterator[tuple[int, Path]]:
    """The sub-folders whose names are numbers, ascending."""
    if not folder.is_dir():
        return
    found = [path for path in folder.iterdir() if path.is_dir() and path.name.isdecimal()]
    for path in sorted(found, key=lambda path: int(path.name)):
        yield int(path.name), path
