"""The words in JSON for numbers on the wire."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, Generic, TypeVar

from borzoi.model.consuming import PollingKind
from borzoi.model.partitioning import PartitioningKind
from borzoi.model.system import (
    NodeRole,
    NodeStatus,
    SnapshotCompression,
    SnapshotKind,
    TransportKind,
)
from borzoi.model.topics import Compression
from borzoi.model.users import UserStatus
from borzoi.records.user_headers import HeaderKind

E = TypeVar("E", bound=IntEnum)


class Words(Generic[E]):
    """One word for each member of an enum, both ways."""

    def __init__(self, words: Mapping[E, str]) -> None:
        self._words = dict(words)
        self._members = {word: member for member, word in words.items()}

    @property
    def words(self) -> list[str]:
        return list(self._members)

    def word(self, member: E) -> str:
        return self._words[member]

    def member(self, word: str) -> E:
        """The member that a word means; `ValueError` lists the known words."""
        member = self._members.get(word)
        if member is None:
            raise ValueError(f"{word[:40]!r} is none of {', '.join(self._members)}")
        return member


def _lower(members: type[E]) -> Words[E]:
    return Words({member: member.name.lower() for member in members})


def _camel(members: type[E]) -> Words[E]:
    return Words({member: member.name.title().replace("_", "") for member in members})


USER_STATUSES: Final = _lower(UserStatus)
COMPRESSIONS: Final = _lower(Compression)
PARTITIONINGS: Final = _lower(PartitioningKind)
POLLINGS: Final = _lower(PollingKind)
HEADER_KINDS: Final = _lower(HeaderKind)
ROLES: Final = _lower(NodeRole)
NODE_STATUSES: Final = _lower(NodeStatus)
SNAPSHOT_COMPRESSIONS: Final = _camel(SnapshotCompression)
SNAPSHOT_KINDS: Final = _camel(SnapshotKind)
TRANSPORTS: Final = Words(
    {
        TransportKind.TCP: "tcp",
        TransportKind.QUIC: "quic",
        TransportKind.HTTP: "http",
        TransportKind.WEBSOCKET: "ws",
    }
)
