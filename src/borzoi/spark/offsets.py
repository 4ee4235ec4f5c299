"""Where a query stands: positions as JSON, where reading starts and ends, how much a batch takes.

Everything here is pure. The state of a partition is passed as an `Extent`; the caller passes a
function that looks up a time.

The JSON that Spark stores in a checkpoint::

    {"v": 1, "shop/orders": {"0": {"o": 123, "c": 1760000000000000, "t": 1760000000500000}}}

`o` is the next offset to read, `c` when the partition was created, `t` the timestamp of the message
before `o` (0 when there is none). A topic that was deleted and recreated has another `c`; after a
purge the message before `o` is missing or has another timestamp.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from borzoi.model.errors import BorzoiError
from borzoi.spark.options import Bound, InvalidOption

VERSION: Final = 1


class DataLoss(BorzoiError):
    """Messages that the query needs no longer exist."""


class PartitionKey(NamedTuple):
    """A partition: `stream/topic` and its number."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Position:
    """Where a query stands in one partition."""

    offset: int
    created: int
    #: Timestamp of the message before `offset`; 0 when there is none.
    mark: int = 0


@dataclass(frozen=True, slots=True)
class Extent:
    """What a partition holds: offsets from `earliest` up to `latest`, which is exclusive."""

    earliest: int
    latest: int
    created: int
    #: Mean size of a message, to estimate positions without an index.
    mean_bytes: int = 0


class Range(NamedTuple):
    """Messages to read: `start` up to `end`, which is exclusive."""

    key: PartitionKey
    start: int
    end: int


Positions = Mapping[PartitionKey, Position]
Extents = Mapping[PartitionKey, Extent]
Offsets = Mapping[PartitionKey, int]
#: Offset of the first message that is at least as new as the time; None when there is none.
FindTime = Callable[[PartitionKey, int], int | None]


# ---- JSON ---------------------------------------------------------------------------------------


def to_json(positions: Positions) -> dict[str, Any]:
    document: dict[str, Any] = {"v": VERSION}
    for key in sorted(positions):
        position = positions[key]
        document.setdefault(key.topic, {})[str(key.partition)] = {
            "o": position.offset,
            "c": position.created,
            "t": position.mark,
        }
    return document


def from_json(document: Mapping[str, Any]) -> dict[PartitionKey, Position]:
    if document.get("v") != VERSION:
        raise DataLoss(
            f"the checkpoint has offsets of version {document.get('v')!r}; this is {VERSION}"
        )
    return {
        PartitionKey(topic, int(partition)): Position(entry["o"], entry["c"], entry.get("t", 0))
        for topic, table in document.items()
        if topic != "v"
        for partition, entry in table.items()
    }


# ---- where reading starts and ends --------------------------------------------------------------


def resolve(
    bound: Bound, extents: Extents, *, now: int, find_time: FindTime
) -> dict[PartitionKey, int]:
    """Return the offset of the bound in every partition."""
    if bound.word is not None:
        is_first = bound.word == "earliest"
        return {key: e.earliest if is_first else e.latest for key, e in extents.items()}
    if bound.offsets is not None:
        return _by_offsets(bound.offsets, extents)
    found = {}
    for key, extent in extents.items():
        micros = _time_of(bound, key, extents, now)
        offset = extent.earliest if micros is None else find_time(key, micros)
        if offset is None and bound.is_error_when_too_new:
            raise InvalidOption(f"{key.topic}[{key.partition}] has no message from {micros} µs on")
        found[key] = extent.latest if offset is None else offset
    return found


def _time_of(bound: Bound, key: PartitionKey, extents: Extents, now: int) -> int | None:
    if bound.moment is not None:
        return bound.moment.at(now)
    table = _table_of(bound.moments or {}, key, extents)
    return table.get(key.partition)


#: Accepted in place of an offset, as in Kafka's connector.
LATEST, EARLIEST = -1, -2


def _by_offsets(
    tables: Mapping[str, Mapping[int, int]], extents: Extents
) -> dict[PartitionKey, int]:
    topics = {key.topic for key in extents} | {""}
    unknown = sorted(set(tables) - topics)
    if unknown:
        raise InvalidOption(f"offsets are given for {unknown[0]!r}, which is not subscribed")
    found = {}
    for key, extent in extents.items():
        offset = _table_of(tables, key, extents).get(key.partition, EARLIEST)
        words = {LATEST: extent.latest, EARLIEST: extent.earliest}
        found[key] = words.get(offset, offset)
    return found


def _table_of(
    tables: Mapping[str, Mapping[int, int]], key: PartitionKey, extents: Extents
) -> Mapping[int, int]:
    """Return the entries of the key's topic; entries without a topic belong to the only one."""
    if "" in tables and len({each.topic for each in extents}) > 1:
        raise InvalidOption("offsets without a topic are ambiguous: several topics are subscribed")
    return tables.get(key.topic, tables.get("", {}))


# ---- how much a batch takes ---------------------------------------------------------------------


def admit_rows(start: Offsets, end: Offsets, rows_max: int) -> dict[PartitionKey, int]:
    """Ends of a batch of at most `rows_max` messages, each partition in proportion to its lag."""
    lags = {key: max(0, end[key] - start.get(key, 0)) for key in end}
    total = sum(lags.values())
    if total <= rows_max:
        return dict(end)
    shares = {key: lag * rows_max // total for key, lag in lags.items()}
    left = rows_max - sum(shares.values())
    # The remainder goes to the largest fractions, so that nothing starves and nothing is lost.
    by_fraction = sorted(lags, key=lambda key: (-(lags[key] * rows_max % total), key))
    for key in by_fraction[:left]:
        shares[key] += 1
    return {key: start.get(key, 0) + min(shares[key], lags[key]) for key in end}


#: The offset about this many bytes after `start`; at least one message further.
OffsetAfter = Callable[[PartitionKey, int, int], int]


def admit_bytes(
    start: Offsets,
    end: Offsets,
    bytes_max: int,
    offset_after: OffsetAfter,
    sizes: Mapping[PartitionKey, int],
) -> dict[PartitionKey, int]:
    """Ends of a batch of about `bytes_max` bytes; `sizes` are the bytes between start and end."""
    total = sum(sizes.values())
    if total <= bytes_max:
        return dict(end)
    admitted = {}
    for key, last in end.items():
        first = start.get(key, 0)
        share = sizes[key] * bytes_max // total
        is_empty = first >= last or share == 0
        admitted[key] = min(first, last) if is_empty else min(last, offset_after(key, first, share))
    if all(admitted[key] <= start.get(key, 0) for key in end):
        # Every share is less than a message: advance the partition with the most bytes by one.
        key = max(sizes, key=lambda each: (sizes[each], each))
        admitted[key] = min(end[key], start.get(key, 0) + 1)
    return admitted


def is_worth_a_batch(available: int, rows_min: int | None, waited: int, delay_max: int) -> bool:
    """Whether there are enough messages, or the oldest of them has waited long enough."""
    return rows_min is None or available >= rows_min or waited >= delay_max


# ---- what is gone -------------------------------------------------------------------------------


def lost(key: PartitionKey, position: Position, extent: Extent | None) -> str | None:
    """Return why the query cannot continue at its position; None if it can."""
    place = f"{key.topic}[{key.partition}]"
    if extent is None:
        return f"{place} no longer exists; the query is at offset {position.offset}"
    kept = f"the server keeps {extent.earliest} to {extent.latest - 1}"
    if extent.latest == 0 or extent.earliest >= extent.latest:
        kept = f"the server keeps nothing, its next offset is {extent.latest}"
    wanted = f"wanted from offset {position.offset} on, {kept}"
    if position.created and extent.created != position.created:
        return f"{place} was deleted and created again: {wanted}"
    if position.offset > extent.latest:
        return f"{place} was purged: {wanted}"
    if position.offset < extent.earliest:
        return f"{place} lost messages to retention: {wanted}"
    return None


def ranges(start: Positions, end: Positions, extents: Extents) -> list[Range]:
    """Return the ranges between two positions that still exist.

    New and recreated partitions start with their first message.
    """
    found = []
    for key in sorted(end):
        extent = extents.get(key)
        if extent is None:
            continue
        position = start.get(key)
        first = extent.earliest
        if position is not None and position.created == end[key].created:
            first = max(first, position.offset)
        last = min(end[key].offset, extent.latest)
        if first < last:
            found.append(Range(key, first, last))
    return found


def lag(positions: Positions, latest: Positions) -> dict[PartitionKey, int]:
    """Return how many stored messages were not read yet."""
    return {
        key: max(0, last.offset - (positions[key].offset if key in positions else 0))
        for key, last in latest.items()
    }


def total(spans: Iterable[Range]) -> int:
    return sum(span.end - span.start for span in spans)
