"""Pulling a checkpoint from a peer: which chunks are asked, here, and verified (K2)."""

from typing import Final

import msgspec

from borzoi.consensus.checkpoint import Artifact, Checkpoint, Manifest
from borzoi.consensus.frames import checksum
from borzoi.consensus.invariants import invariant
from borzoi.consensus.messages import U128

CHUNKS_IN_FLIGHT: Final = 4
STALLS_MAX: Final = 5


class ChunkWanted:
    """A requested range of one artifact."""

    __slots__ = ("artifact", "length", "offset")

    def __init__(self, artifact: int, offset: int, length: int) -> None:
        self.artifact = artifact
        self.offset = offset
        self.length = length


class Transfer(msgspec.Struct, eq=False):
    """One pull session from one peer; dropped and begun again elsewhere when it stalls."""

    peer: int
    nonce: U128
    chunk_bytes: int
    stalls: int = 0
    manifest: Manifest | None = None
    _buffers: list[bytearray] = []
    _wanted: dict[tuple[int, int], ChunkWanted] = {}
    _cursor: tuple[int, int] = (0, 0)

    def accept(self, manifest: Manifest) -> None:
        """Accept the peer's offer; chunks can be requested."""
        invariant(self.manifest is None, "one manifest per transfer")
        self.manifest = manifest
        self._buffers = [bytearray(entry.length) for entry in manifest.entries]

    def next_chunks(self) -> list[ChunkWanted]:
        """Return the ranges to request now, so that at most four are in flight."""
        invariant(self.manifest is not None, "chunks follow a manifest")
        asked: list[ChunkWanted] = []
        while len(self._wanted) < CHUNKS_IN_FLIGHT:
            artifact, offset = self._cursor
            if artifact >= len(self._buffers):
                break
            length = min(self.chunk_bytes, len(self._buffers[artifact]) - offset)
            if length <= 0:
                self._cursor = (artifact + 1, 0)
                continue
            self._cursor = (artifact, offset + length)
            wanted = self._wanted[(artifact, offset)] = ChunkWanted(artifact, offset, length)
            asked.append(wanted)
        return asked

    def outstanding(self) -> list[ChunkWanted]:
        """What was asked and has not come, oldest first."""
        return list(self._wanted.values())

    def receive(self, artifact: int, offset: int, content: bytes) -> bool:
        """Add a chunk; false when it was not requested or has the wrong length."""
        wanted = self._wanted.get((artifact, offset))
        if wanted is None or wanted.length != len(content):
            return False
        del self._wanted[(artifact, offset)]
        self._buffers[artifact][offset : offset + len(content)] = content
        self.stalls = 0
        return True

    def is_complete(self) -> bool:
        return self.manifest is not None and not self._wanted and not self.next_chunks()

    def checkpoint(self) -> Checkpoint | None:
        """Everything received, or None when an artifact is not what the manifest promised."""
        if self.manifest is None:
            return None
        artifacts: list[Artifact] = []
        for entry, buffer in zip(self.manifest.entries, self._buffers, strict=True):
            content = bytes(buffer)
            if checksum(content) != entry.checksum:
                return None
            artifacts.append(Artifact(entry.kind, entry.frontier, content))
        return Checkpoint(self.manifest, tuple(artifacts))
