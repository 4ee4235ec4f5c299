"""Reads a whole topic, partition by partition, to its end or for ever.

A walk keeps one offset per partition, reads each to where the topic ended when it began, and with
`follow` waits for more. It stores no offsets on the server.
"""

import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Final

from borzoi.cli.faults import CommandFailed, Exit
from borzoi.cli.names import Topic, shown_topic
from borzoi.client import Client, Message, Polled
from borzoi.client.naming import Start
from borzoi.model.errors import InvalidFormat
from borzoi.model.units import parse_duration

#: Pauses between polls of an idle topic: short at first, so that tail feels live.
PAUSE_SECONDS_MIN: Final = 0.02
PAUSE_SECONDS_MAX: Final = 0.5
BATCH: Final = 1000


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
    client: Client,
    topic: Topic,
    start: Start,
    partitions: tuple[int, ...] = (),
    *,
    follow: bool = False,
    count: int = BATCH,
) -> Iterator[Polled]:
    """Yield non-empty polls, partition after partition, oldest first within each."""
    offsets: dict[int, Start] = dict.fromkeys(partitions_of(client, topic, partitions), start)
    finished: set[int] = set()
    pause = PAUSE_SECONDS_MIN
    while len(finished) < len(offsets):
        brought = False
        for partition, place in list(offsets.items()):
            if partition in finished:
                continue
            polled = client.poll_messages(topic, partition=partition, start=place, count=count)
            if polled.messages:
                brought = True
                offsets[partition] = polled.messages[-1].offset + 1
                yield polled
            elif not follow:
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


def messages(
    client: Client,
    topic: Topic,
    start: Start,
    partitions: tuple[int, ...] = (),
    *,
    follow: bool = False,
) -> Iterator[Message]:
    for polled in batches(client, topic, start, partitions, follow=follow):
        yield from polled.messages
