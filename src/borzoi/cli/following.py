"""Reads a whole topic, partition by partition, to its end or for ever.

A walk keeps one offset per partition, reads each to where the topic ended when it began, and with
`follow` waits for more. It stores no offsets on the server.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from borzoi.cli.faults import CommandFailed, Exit
from borzoi.cli.names import Topic, shown_topic
from borzoi.client import Client, Message, Polled
from borzoi.client.naming import Start
from borzoi.model.errors import InvalidFormat
from borzoi.model.units import SECOND, parse_duration

#: Pauses between polls of an idle topic: short at first, so that tail feels live.
PAUSE_SECONDS_MIN: Final = 0.02
PAUSE_SECONDS_MAX: Final = 0.5
BATCH: Final = 1000


@dataclass(frozen=True, slots=True)
class MessageRange:
    """Which messages of each partition: from a place, up to an offset or a time."""

    start: Start = "first"
    #: The offset after the last one; None for the end of the partition.
    end_offset: int | None = None
    #: Microseconds; messages stored at or after it are left out.
    end_time: int | None = None
    partitions: tuple[int, ...] = ()


def start_of(text: str, *, now: Callable[[], datetime] | None = None) -> Start:
    """``first``, an offset, how long ago such as ``10m``, or a date and time."""
    if text in ("first", "earliest", "beginning"):
        return "first"
    if text.isdecimal():
        return int(text)
    return moment_of(text, now=now)


def moment_of(text: str, *, now: Callable[[], datetime] | None = None) -> datetime:
    """A time: ISO 8601, or how long ago it was, such as ``10m`` or ``2 days``."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        pass
    try:
        ago = parse_duration(text.removesuffix(" ago"))
    except InvalidFormat:
        raise InvalidFormat(
            f"{text!r} is not a place in a topic: first, an offset, a time such as"
            " 2026-01-31T12:00, or how long ago such as 10m"
        ) from None
    current = now() if now is not None else datetime.now().astimezone()
    return current - timedelta(microseconds=ago)


def partitions_of(client: Client, topic: Topic, wanted: tuple[int, ...]) -> list[int]:
    details = client.get_topic(topic)
    if details is None:
        raise CommandFailed(f"there is no topic {shown_topic(topic)}", Exit.NOT_FOUND)
    there = [partition.id for partition in details.partitions]
    for number in wanted:
        if number not in there:
            raise CommandFailed(
                f"topic {shown_topic(topic)} has no partition {number}", Exit.NOT_FOUND
            )
    return list(wanted) or there


def batches(
    client: Client, topic: Topic, among: MessageRange, *, follow: bool = False, count: int = BATCH
) -> Iterator[Polled]:
    """Yield non-empty polls, partition after partition, oldest first within each."""
    offsets: dict[int, Start] = dict.fromkeys(
        partitions_of(client, topic, among.partitions), among.start
    )
    finished: set[int] = set()
    pause = PAUSE_SECONDS_MIN
    while len(finished) < len(offsets):
        brought = False
        for partition, start in list(offsets.items()):
            if partition in finished:
                continue
            polled = client.poll_messages(topic, partition=partition, start=start, count=count)
            within = bounded(polled, among)
            if within.messages:
                brought = True
                offsets[partition] = polled.messages[-1].offset + 1
                yield within
            if len(within) < len(polled) or (not polled.messages and not follow):
                finished.add(partition)
        if not brought and follow:
            time.sleep(pause)
            pause = min(pause * 2, PAUSE_SECONDS_MAX)
        else:
            pause = PAUSE_SECONDS_MIN


def followed(client: Client, topic: Topic, offsets: dict[int, int]) -> Iterator[Message]:
    """Yield new messages after the offsets for ever, polling the partitions in turn."""
    pause = PAUSE_SECONDS_MIN
    while True:
        brought = False
        for partition, offset in list(offsets.items()):
            polled = client.poll_messages(topic, partition=partition, start=offset, count=BATCH)
            if polled.messages:
                brought = True
                offsets[partition] = polled.messages[-1].offset + 1
                yield from polled.messages
        pause = PAUSE_SECONDS_MIN if brought else min(pause * 2, PAUSE_SECONDS_MAX)
        if not brought:
            time.sleep(pause)


def bounded(polled: Polled, among: MessageRange) -> Polled:
    """Return the messages before the end of the range; offsets and times both ascend."""
    kept = polled.messages
    if among.end_offset is not None:
        kept = [one for one in kept if one.offset < among.end_offset]
    if among.end_time is not None:
        kept = [one for one in kept if one.timestamp < among.end_time]
    return (
        polled
        if len(kept) == len(polled)
        else Polled(polled.partition, polled.current_offset, kept)
    )


def messages(
    client: Client, topic: Topic, among: MessageRange, *, follow: bool = False
) -> Iterator[Message]:
    for polled in batches(client, topic, among, follow=follow):
        yield from polled.messages


def microseconds(moment: datetime) -> int:
    return round(moment.timestamp() * SECOND)
