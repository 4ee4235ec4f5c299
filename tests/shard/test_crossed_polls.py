"""Polls that cross, between two shards on one loop."""

import asyncio
from typing import Any

import pytest
from tests.shard.test_routing import Shard, owned_by, shards  # noqa: F401
from tests.support.logs import batch_of, payloads_in

from borzoi.metadata.effects import PurgedTopic
from borzoi.model.consuming import ConsumerKind, PollingStrategy
from borzoi.partitions.futures import arrived
from borzoi.partitions.operations import Append, Poll
from borzoi.shard.crossed_polls import CrossedPolls

MESSAGES = 400


def poll(offset: int, count: int = 10) -> Poll:
    return Poll(PollingStrategy.offset(offset), count, ConsumerKind.CONSUMER, 1)


async def filled(pair: list[Shard]) -> tuple[Shard, Shard]:
    """The shard that asks, and the owner of a partition with messages."""
    asker, owner = pair
    batch = batch_of([b"%d" % number for number in range(MESSAGES)])
    await arrived(asker.plane.run(owned_by(owner), Append(batch), now=1))
    return asker, owner


def asked_of(owner: Shard, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The offsets for which the owner is asked from now on."""
    asked: list[int] = []
    answer = CrossedPolls.answer

    def noting(self, peer, partition, poll, polled, further):
        asked.append(poll.strategy.value)
        return answer(self, peer, partition, poll, polled, further)

    monkeypatch.setattr(CrossedPolls, "answer", noting)
    return asked


def requests_of(monkeypatch: pytest.MonkeyPatch) -> list[asyncio.Future[Any]]:
    """The requests to owners from now on."""
    under_way: list[asyncio.Future[Any]] = []
    ask = CrossedPolls.ask

    def noting(self, owner, namespace, poll, make):
        under_way.append(ask(self, owner, namespace, poll, make))
        return under_way[-1]

    monkeypatch.setattr(CrossedPolls, "ask", noting)
    return under_way


async def test_a_client_that_goes_on_gets_every_message_and_seldom_asks(shards, monkeypatch):  # noqa: F811
    asker, owner = await filled(shards)
    asked = asked_of(owner, monkeypatch)
    monkeypatch.setattr("borzoi.shard.reading_ahead.FRESH_SECONDS", 60.0)
    under_way = requests_of(monkeypatch)
    found: list[bytes] = []
    for start in range(0, MESSAGES, 10):
        polled = await arrived(asker.plane.run(owned_by(owner), poll(start), now=1))
        assert polled.current_offset == MESSAGES - 1
        found += payloads_in(polled.reading.materialise())
        # Slower than the read-ahead: what the owner was asked for has arrived.
        await asyncio.gather(*under_way)
    assert found == [b"%d" % number for number in range(MESSAGES)]
    assert asked == [0, 10, 40, 200, 360, 390], "the end is not said ahead"


async def with_read_ahead(shards, monkeypatch):  # noqa: F811
    """The shard that asks, to which the owner has sent the messages from 20 on ahead."""
    asker, owner = await filled(shards)
    place = owned_by(owner)
    monkeypatch.setattr("borzoi.shard.reading_ahead.FRESH_SECONDS", 60.0)
    for start in (0, 10):
        await arrived(asker.plane.run(place, poll(start), now=1))
    assert asker.plane._polls.known(1, place, poll(20)) is not None
    return asker, owner


async def test_nothing_is_known_ahead_after_a_purge(shards, monkeypatch):  # noqa: F811
    asker, owner = await with_read_ahead(shards, monkeypatch)
    place = owned_by(owner)
    effect = PurgedTopic(place.stream_id, place.topic_id, (place.partition_id,))
    # An answer that is on its way is too old when it arrives.
    late = asker.plane.run(place, poll(7), now=1)
    for shard in (asker, owner):
        await shard.plane.carry_out(effect)
    assert asker.plane._polls.known(1, place, poll(20)) is None
    await arrived(late)
    assert (await arrived(asker.plane.run(place, poll(17), now=1))).reading.count == 0


async def test_what_a_lost_peer_said_is_forgotten(shards, monkeypatch):  # noqa: F811
    asker, owner = await with_read_ahead(shards, monkeypatch)
    place = owned_by(owner)
    asker.bus.links.on_peer_lost(1)
    assert asker.plane._polls.known(1, place, poll(20)) is None
    assert asker.plane.files_held == 0
