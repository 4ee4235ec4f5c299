"""Which partitions are known to be on the disk: the file `presence.json`.

    {"index": 17, "partitions": [[stream, topic, partition], ...]}

The metadata says which partitions should exist. A missing directory was either never created,
because the server was killed right after it had logged a creation or a purge, or it is lost: a
volume is not mounted, or someone removed it. A start that recreated it in the second case would be
empty and would reuse offsets. So each start and each stop, and a chore in between, record the
partitions whose directories are on the disk, and the last metadata entry that had been carried out
by then. A partition that is recorded, was not touched by a later entry and has no directory is
lost.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from borzoi.metadata.effects import (
    CreatedPartitions,
    Effect,
    PurgedStream,
    PurgedTopic,
)
from borzoi.metadata.state import Metadata
from borzoi.model.errors import InvalidConfiguration, StateCorrupted
from borzoi.model.namespace import Namespace
from borzoi.storage.media import Medium, content_of, replace_file

PRESENCE_NAME: Final = "presence.json"
#: How many missing directories an error names one by one.
NAMED_MAX: Final = 5


class Presence(msgspec.Struct, frozen=True):
    """The partitions on the disk once the metadata entry `index` had been carried out."""

    index: int = -1
    partitions: tuple[Namespace, ...] = ()


def read_presence(medium: Medium, directory: Path) -> Presence | None:
    """Read the file; None when there is none, as in a directory of an older version."""
    path = directory / PRESENCE_NAME
    if not medium.exists(path):
        return None
    try:
        return msgspec.json.decode(content_of(medium, path), type=Presence)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StateCorrupted(f"{path} cannot be read: {error}") from None


def write_presence(medium: Medium, directory: Path, presence: Presence) -> None:
    replace_file(medium, directory / PRESENCE_NAME, msgspec.json.encode(presence) + b"\n")


def partitions_of(state: Metadata) -> set[Namespace]:
    return {
        Namespace(stream.id, topic.id, partition_id)
        for stream in state.streams.values()
        for topic in stream.topics.values()
        for partition_id in topic.partitions
    }


def touched(effects: Iterable[Effect]) -> Iterator[Namespace]:
    """Return the partitions whose directories these effects create or replace."""
    for effect in effects:
        match effect:
            case CreatedPartitions() | PurgedTopic():
                topics: Sequence[tuple[int, Sequence[int]]] = [
                    (effect.topic_id, effect.partition_ids)
                ]
            case PurgedStream():
                topics = effect.topics
            case _:
                continue
        for topic_id, partition_ids in topics:
            for partition_id in partition_ids:
                yield Namespace(effect.stream_id, topic_id, partition_id)


def lost(
    presence: Presence | None,
    expected: Collection[Namespace],
    unsettled: Collection[Namespace],
    there: Collection[Namespace],
) -> list[Namespace]:
    """Return the partitions that were on the disk and no longer are.

    `expected` are the partitions of the metadata, `unsettled` those touched by later entries, and
    `there` those with a directory. Without a list (an older version wrote none) single losses
    cannot be detected, but a loss of all partitions can.
    """
    if presence is None:
        return [] if there else sorted(set(expected).difference(unsettled))
    return sorted(set(presence.partitions).intersection(expected).difference(unsettled, there))


def refuse_lost(missing: Sequence[Namespace], paths: Sequence[Path], directory: Path) -> None:
    """Raise when partitions are lost; `paths` are their directories, in the same order."""
    if not missing:
        return
    named = ", ".join(map(str, paths[:NAMED_MAX]))
    if len(missing) > NAMED_MAX:
        named += f" and {len(missing) - NAMED_MAX} more"
    raise InvalidConfiguration(
        f"{len(missing)} partitions that were on the disk have no directory: {named}; is a volume"
        f" not mounted? Bring them back, or accept the loss with `borzoi log repair --yes"
        f" {directory}`, after which a start creates them empty"
    )


class PresenceKeeper:
    """Keeps the file up to date while a server runs."""

    def __init__(self, medium: Medium, directory: Path, stored: Presence | None) -> None:
        self._medium = medium
        self._directory = directory
        self._stored = stored

    def note(self, index: int, partitions: Iterable[tuple[Namespace, Path]]) -> None:
        """Record that the partitions are on the disk, at these paths; blocks for the disk.

        The parent directories of new ones are synced first: a power cut must not lose a directory
        and keep the list that names it.
        """
        listed = dict(partitions)
        presence = Presence(index, tuple(sorted(listed)))
        if presence == self._stored:
            return
        known = () if self._stored is None else self._stored.partitions
        on_the_way: dict[Path, None] = {}
        for namespace in listed.keys() - set(known):
            for place in listed[namespace].parents:
                if place in on_the_way:
                    break
                on_the_way[place] = None
                if place == self._directory:
                    break
        for place in on_the_way:
            self._medium.fsync_directory(place)
        write_presence(self._medium, self._directory, presence)
        self._stored = presence
