"""What may rot on a disk, and what the dice let rot of it.

No fault may go beyond what the protocol promises to survive: a good copy elsewhere makes up for
each, or the replica counts as one that has lost its disk.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

from borzoi.consensus.checkpoint import ArtifactKind
from borzoi.simulator.randomness import happens
from borzoi.simulator.volume import Record, Volume, spoil

# Candidates for rot that a view change or the next start looks at first.
NEWEST: Final = 3


def rot_survivable(
    volumes: Sequence[Volume], random: Random, replica: int, replicas: int, *, deep: bool
) -> str | None:
    """Spoils something that a good copy elsewhere makes up for; None when there is nothing."""
    volume = random.choice(volumes)
    if happens(random, 0.15):
        return rot_superblock(volume, random)
    candidates = rot_candidates(volume, replica, replicas)
    if not candidates or replicas < 2:
        return None
    if deep and happens(random, 0.5):
        candidates = candidates[-NEWEST:]
    index = random.choice(candidates)
    record, spot = volume.records[index], random.random()
    if happens(random, 0.4):
        loses_slot = deep and happens(random, 0.6) and may_lose_slot(volume, index)
        spoil_header(record, spot)
        if loses_slot:
            volume.rotten_slots.add(record.header.checksum)
            return "journal header and its copy"
        return "journal header"
    if not record.body:
        return None
    record.body_bad = True
    spoil(record, 256 + int(spot * len(record.body)))
    return "journal body"


def rot_unnamed(volumes: Sequence[Volume], random: Random, *, deep: bool) -> bool:
    """Spoils a header and its trailer, so that the op of the record is unknown.

    Such a replica cannot tell what it acknowledged and loses its vote (S5): that is as bad as
    a lost disk, and is dealt out with the same care.
    """
    volume = random.choice(volumes)
    if len(volume.records) < 2:
        return False
    index = random.randrange(len(volume.records) - 1)
    if deep and happens(random, 0.25):
        index = 0
    record = volume.records[index]
    spoil_header(record, random.random())
    record.trailer_bad = True
    slot = record.header
    if deep and happens(random, 0.5):
        slot = random.choice(volume.ring or [slot])
    if happens(random, 0.7):
        volume.rotten_slots.add(slot.checksum)
    if record.image is not None:
        spoil(record, len(record.image) - 40)
    if deep and happens(random, 0.4) and index + 2 < len(volume.records):
        # Its neighbour is hit too, and still has its trailer.
        neighbour = volume.records[index + 1]
        if not neighbour.header_bad:
            spoil_header(neighbour, random.random())
    return True


def rot_superblock(volume: Volume, random: Random) -> str | None:
    newest = volume.newest()
    pair = volume.generations[newest.generation % 2] if newest is not None else None
    if pair is None or pair.copies != 3:
        return None
    pair.copies = random.choice((1, 2))
    return "superblock copy"


def rot_checkpoint(volume: Volume, random: Random) -> str | None:
    """Spoils a file of the checkpoint that the superblock names; says which kind."""
    newest = volume.newest()
    if newest is None or not newest.checkpoint_op:
        return None
    artifacts = volume.checkpoints[newest.checkpoint_op].artifacts
    candidates = [index for index, one in enumerate(artifacts) if one.content]
    index = random.choice(candidates)
    volume.rotten[newest.checkpoint_op] = (index, random.random())
    is_segment = artifacts[index].kind == ArtifactKind.SEGMENT_LOG
    return "segment" if is_segment else "checkpoint"


def rot_candidates(volume: Volume, replica: int, replicas: int) -> list[int]:
    """The fault atlas: op o may rot on replica o mod n only, so one good copy always remains.

    The newest record only if the ring names it: otherwise it looks like a torn one (S5),
    and being acknowledged it would be a fault that no format can see. What a power cut left
    behind only once a start has brought it into the ring, whatever lies behind it by then: a
    head of the log that has no name but in its trailer costs the replica its voice.
    """
    named = len(volume.records) - volume.spared
    candidates = [
        index
        for index, record in enumerate(volume.records[:named])
        if record.header.op % replicas == replica and record.is_good
    ]
    if candidates and candidates[-1] == len(volume.records) - 1:
        newest = volume.records[-1].header.checksum
        if all(header.checksum != newest for header in reversed(volume.ring)):
            candidates.pop()
    return candidates


def may_lose_slot(volume: Volume, index: int) -> bool:
    """Whether this record is still named when its header and its slot of the ring are gone.

    By its trailer, if an intact record follows it: otherwise it looks like a torn one.
    And by the next prepare of its log: without that one the log would end below an op that may
    have been acknowledged, and the replica would lose its voice. So it would where a record
    without a name needs the whole ring to speak for it.
    """
    newest = volume.newest()
    if newest is None or any(one.trailer_bad for one in volume.records):
        return False
    header, log_view = volume.records[index].header, newest.log_view
    return header.view <= log_view and any(
        one.header.parent == header.checksum and one.header.view <= log_view and one.is_good
        for one in volume.records[index + 1 : len(volume.records) - volume.spared]
    )


def spoil_header(record: Record, spot: float) -> None:
    record.header_bad = True
    spoil(record, 16 + int(spot * 240))
