"""Polled messages as text, piece by piece."""

import asyncio
import json
from collections.abc import MutableMapping
from typing import Any

from tests.support.logs import numbered

from borzoi.handlers.answers import Delivery
from borzoi.listeners.http import polled
from borzoi.listeners.http.bodies import Upload
from borzoi.listeners.http.polled import PIECE_MESSAGES, in_turns, is_written_at_once, while_wanted
from borzoi.storage.reading import Reading

COUNT = 1000


def delivery(count: int = COUNT) -> Delivery:
    batch = numbered([b"%d" % number for number in range(count)], base_offset=0, timestamp=1)
    return Delivery(3, count - 1, Reading(0, count, tail=[batch.messages] if count else []))


def test_a_document_is_whole() -> None:
    pieces = list(polled.document(delivery()))
    assert len(pieces) > COUNT / PIECE_MESSAGES
    found = json.loads(b"".join(pieces))
    assert (found["partition_id"], found["current_offset"], found["count"]) == (3, 999, COUNT)
    assert [one["header"]["offset"] for one in found["messages"]] == list(range(COUNT))


def test_no_messages_are_no_partition() -> None:
    found = json.loads(b"".join(polled.document(delivery(0))))
    assert found == {"partition_id": 0, "current_offset": 0, "count": 0, "messages": []}


def test_lines_and_events_are_one_for_each_message() -> None:
    lines = b"".join(polled.lines(delivery())).splitlines()
    assert [json.loads(line)["header"]["offset"] for line in lines] == list(range(COUNT))
    events = b"".join(polled.events(delivery())).split(b"\n\n")
    assert events[-1] == b""
    assert [int(event.split(b"\n")[0][4:]) for event in events[:-1]] == list(range(COUNT))


def test_only_a_short_poll_is_written_at_once() -> None:
    assert is_written_at_once(delivery(100))
    assert not is_written_at_once(delivery(257))
    assert not is_written_at_once(Delivery(0, 0, Reading(0, 1, tail=[memoryview(bytes(200_000))])))


async def test_others_have_turns_between_the_pieces() -> None:
    order: list[str] = []

    async def write(name: str) -> None:
        async for _ in in_turns(polled.lines(delivery())):
            order.append(name)

    await asyncio.gather(write("a"), write("b"))
    assert order == ["a", "b"] * (len(order) // 2)


async def test_nothing_is_written_for_who_has_gone() -> None:
    """What is sent to a client that is gone is discarded silently."""
    leaving = asyncio.Event()

    async def receive() -> MutableMapping[str, Any]:
        await leaving.wait()
        return {"type": "http.disconnect"}

    pieces = while_wanted(polled.lines(delivery()), Upload(receive, {}))
    assert await anext(pieces)
    leaving.set()
    await asyncio.sleep(0)
    rest = [piece async for piece in pieces]
    assert len(rest) < 3
