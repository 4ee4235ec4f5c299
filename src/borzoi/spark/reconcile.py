"""Exactly-once writes to a topic: markers in a control topic, and how tasks use them.

A marker is one message in `{stream}/__borzoi_spark`, as JSON::

    {"query": …, "topic": "shop/totals", "epoch": 7, "run": …, "ends": {"0": 1200, "1": 1187},
     "skipped": 0}

`skipped` counts the rows that were found there already.

`commit()` on the driver writes one after all tasks of an epoch have succeeded. Before the first
message of a query, a task writes one with epoch -1, the *begin* marker. Of several begin markers
the first one counts: its ends were read before any marker existed, so before anything was sent.

A task whose epoch may have been tried before (`Doubt`) reads the ids after the ends of the last
marker, and skips the rows that are stored. Without a failure nothing is read.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

CONTROL_TOPIC: Final = "__borzoi_spark"
BEGIN: Final = -1


def control_topic(topic: str) -> str:
    """Where the markers of a topic are: in a topic of the same stream."""
    return f"{topic.partition('/')[0]}/{CONTROL_TOPIC}"


@dataclass(frozen=True, slots=True)
class Marker:
    """Everything before `ends` is committed, up to and with `epoch`."""

    query: str
    topic: str
    epoch: int
    run: str
    ends: Mapping[int, int]
    #: Rows of the epoch that an earlier attempt had sent.
    skipped: int = 0

    def to_bytes(self) -> bytes:
        return json.dumps(
            {
                "query": self.query,
                "topic": self.topic,
                "epoch": self.epoch,
                "run": self.run,
                "ends": {str(partition): end for partition, end in self.ends.items()},
                "skipped": self.skipped,
            }
        ).encode()


def marker_of(payload: bytes) -> Marker | None:
    """The marker in a message of the control topic; None for anything else."""
    try:
        document: dict[str, Any] = json.loads(payload)
        ends = {int(partition): int(end) for partition, end in document["ends"].items()}
        return Marker(
            str(document["query"]),
            str(document["topic"]),
            int(document["epoch"]),
            str(document["run"]),
            ends,
            int(document.get("skipped", 0)),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def chosen(markers: Iterable[Marker], query: str, topic: str) -> Marker | None:
    """The marker that counts, of all in the order they were written."""
    ours = [each for each in markers if each.query == query and each.topic == topic]
    committed = [each for each in ours if each.epoch != BEGIN]
    if committed:
        return max(committed, key=lambda each: each.epoch)
    return ours[0] if ours else None


class Doubt(Enum):
    """What a task must assume about its epoch."""

    COMMITTED = "committed"  # committed: send nothing
    NONE = "none"  # never tried: send without checking
    RETRIED = "retried"  # this run tried it: check, and send what is missing
    RESTARTED = "restarted"  # another run may have tried it and may still send: wait, then check


def doubt(marker: Marker | None, *, epoch: int, run: str, attempt: int) -> Doubt:
    """Return the doubt about an epoch; without a marker the query never sent anything."""
    if marker is None:
        return Doubt.NONE
    if marker.epoch >= epoch:
        return Doubt.COMMITTED
    if marker.run != run:
        return Doubt.RESTARTED
    return Doubt.RETRIED if attempt > 0 else Doubt.NONE
