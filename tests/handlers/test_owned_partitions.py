"""An open partition answers without `PartitionPlane.run` as it does through it.

A plane that lets others agree to a write leaves its partitions out of `owned`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.embedded import EmbeddedServer, embedded_server, with_topic
from tests.support.polls import READER, poll_of
from tests.support.sends import send_of

from borzoi.model.consuming import PollingStrategy
from borzoi.model.errors import BorzoiError
from borzoi.model.namespace import Namespace
from borzoi.model.partitioning import Partitioning
from borzoi.partitions.operations import PartitionOperation
from borzoi.protocol.commands.messages import PolledMessages, PollMessages
from borzoi.protocol.commands.offsets import GetConsumerOffset
from borzoi.protocol.contract import Request
from borzoi.records.message import decode_messages


def poll(strategy: PollingStrategy, *, commit: bool = False, partition_id: int = 0) -> PollMessages:
    return poll_of(3, partition=partition_id, strategy=strategy, commit=commit)


REQUESTS: tuple[Request, ...] = (
    send_of(b"a", b"b", b"c", b"d"),
    send_of(b"e"),
    send_of(bytes(100_000)),
    send_of(b"other", partitioning=Partitioning.partition(1)),
    send_of(b"nowhere", partitioning=Partitioning.partition(7)),
    *(poll(strategy) for strategy in (PollingStrategy.first(), PollingStrategy.last())),
    poll(PollingStrategy.offset(2)),
    poll(PollingStrategy.timestamp(1)),
    poll(PollingStrategy.next(), commit=True),
    poll(PollingStrategy.next(), commit=True),
    poll(PollingStrategy.first(), partition_id=1),
    poll(PollingStrategy.first(), partition_id=7),
    GetConsumerOffset(READER, "s", "t", 0),
)


async def answers(server: EmbeddedServer, requests: Sequence[Request]) -> list[Any]:
    """What a client hears, without the times of the messages."""
    client = server.root()
    heard: list[Any] = []
    for request in requests:
        try:
            answer = await client.call(request)
        except BorzoiError as fault:
            answer = type(fault)
        if isinstance(answer, PolledMessages):
            found = decode_messages(answer.messages)
            messages = [(one.offset, bytes(one.payload)) for one in found]
            answer = (answer.partition_id, answer.current_offset, messages)
        heard.append(answer)
    return heard


async def test_both_ways_to_a_partition_answer_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with embedded_server(tmp_path / "around") as server:
        await with_topic(server)
        around = await answers(server, REQUESTS)
    asked: list[str] = []
    async with embedded_server(tmp_path / "through") as server:
        await with_topic(server)
        plane = server.services.partitions
        monkeypatch.setattr(plane, "owned", {})
        monkeypatch.setattr(server.dispatcher, "_owned", {})
        monkeypatch.setattr(server.binary.gathering, "_owned", {})
        run = plane.run

        def counted(namespace: Namespace, operation: PartitionOperation[Any], *, now: int) -> Any:
            asked.append(type(operation).__name__)
            return run(namespace, operation, now=now)

        monkeypatch.setattr(plane, "run", counted)
        through = await answers(server, REQUESTS)
    assert through == around
    assert (asked.count("Append"), asked.count("Poll")) == (4, 7)
