"""A consumer that reads on in a partition of another shard, between two shards on one loop."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.shard.test_routing import Shard, owned_by, shards, two_shards  # noqa: F401
from tests.support.logs import batch_of, payloads_in

from borzoi.metadata.effects import PurgedTopic
from borzoi.model.consuming import ConsumerKind, PollingStrategy
from borzoi.model.limits import POLLED_BYTES_MAX
from borzoi.partitions.futures import arrived
from borzoi.partitions.operations import Append, Poll
from borzoi.partitions.polling import Polled
from borzoi.shard.bus import Arrived
from borzoi.shard.crossed_polls import _ENCODER, CrossedPolls
from borzoi.shard.crossing_files import Announcement
from borzoi.shard.reading_ahead import AHEAD_MAX, FRESH_SECONDS, ReadingAhead

MESSAGES = 1000
COUNT = 10
EXPECTED = [b"%d" % number for number in range(MESSAGES)]


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Consumer:
    """Polls a partition of the second shard through the first one."""

    def __init__(self, pair: list[Shard], monkeypatch: pytest.MonkeyPatch | None = None) -> None:
        self.asker, self.owner = pair
        self.place = owned_by(self.owner)
        self.clock = Clock()
        #: The offsets that the owner was asked for, and how many polls were welcome.
        self.asked: list[tuple[int, int]] = []
        self.under_way: list[asyncio.Future[Any]] = []
        self.begin(0)
        if monkeypatch is not None:
            self.watch(monkeypatch)

    def begin(self, offset: int, count: int = COUNT, size_max: int = POLLED_BYTES_MAX) -> None:
        """The first poll of a connection; this is for those behind it."""
        strategy = PollingStrategy.offset(offset)
        poll = Poll(strategy, count, ConsumerKind.CONSUMER, 1, size_max=size_max)
        polls = self.asker.plane._polls
        self.ahead = ReadingAhead(polls, self.owner.bus.shard, self.place, poll, self.clock)

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ask = CrossedPolls.ask

        def noting(polls: CrossedPolls, owner, namespace, poll, make, welcome=0):
            self.asked.append((poll.strategy.value, welcome))
            self.under_way.append(ask(polls, owner, namespace, poll, make, welcome))
            return self.under_way[-1]

        monkeypatch.setattr(CrossedPolls, "ask", noting)

    async def append(self, *payloads: bytes) -> None:
        await arrived(self.asker.plane.run(self.place, Append(batch_of(payloads)), now=1))

    async def polled(self, offset: int) -> Polled:
        """The answer, and what was requested meanwhile has arrived."""
        found = self.ahead.known(offset)
        if found is None:
            found = await self.ahead.ask(offset, lambda polled: polled)
        await asyncio.gather(*self.under_way)
        return found

    async def payloads(self, offset: int) -> list[bytes]:
        return payloads_in((await self.polled(offset)).reading.materialise())

    async def purge(self) -> None:
        place = self.place
        effect = PurgedTopic(place.stream_id, place.topic_id, (place.partition_id,))
        for shard in (self.asker, self.owner):
            await shard.plane.carry_out(effect)


@pytest.fixture
async def consumer(shards: list[Shard], monkeypatch: pytest.MonkeyPatch) -> Consumer:  # noqa: F811
    made = Consumer(shards, monkeypatch)
    await made.append(*EXPECTED)
    return made


async def test_a_client_that_goes_on_gets_every_message_and_seldom_asks(consumer: Consumer) -> None:
    found: list[bytes] = []
    for offset in range(COUNT, MESSAGES, COUNT):
        polled = await consumer.polled(offset)
        assert (polled.reading.first_offset, polled.reading.count) == (offset, COUNT)
        assert polled.current_offset == MESSAGES - 1
        found += payloads_in(polled.reading.materialise())
    assert found == EXPECTED[COUNT:]
    welcome = {10: 2, 40: 4, 90: 8, 180: 16, 350: 32, 680: 32, 990: 32}
    assert consumer.asked == [*welcome.items(), (990, 32)], "the end is not sent ahead"


async def test_what_was_sent_ahead_is_read_from_the_file_that_crossed(consumer: Consumer) -> None:
    first = await consumer.polled(COUNT)
    second = consumer.ahead.known(2 * COUNT)
    assert second is not None
    (before,), (behind,) = first.reading.ranges, second.reading.ranges
    assert behind.file is before.file
    assert behind.position == before.position + before.length
    assert consumer.ahead.known(2 * COUNT) == second, "it may be polled again"


@pytest.mark.parametrize("offset", [0, 11, 41, 55, 69, 90, 500, MESSAGES, 1 << 63])
async def test_other_offsets_are_asked_for(consumer: Consumer, offset: int) -> None:
    for start in (10, 20, 30, 40):
        await consumer.polled(start)
    assert consumer.ahead.known(50) is not None
    assert consumer.ahead.known(offset) is None
    assert await consumer.payloads(offset) == EXPECTED[offset : offset + COUNT]


async def test_a_client_that_jumps_gets_less_ahead(consumer: Consumer) -> None:
    for offset in range(COUNT, 200, COUNT):
        await consumer.polled(offset)
    consumer.asked.clear()
    for offset in (700, 500, 300, 100, 900, 0, 600, 610):
        assert await consumer.payloads(offset) == EXPECTED[offset : offset + COUNT]
    jumps = [welcome for offset, welcome in consumer.asked if offset != 610]
    assert jumps == [8, 4, 2, 0, 0, 0, 0]
    assert consumer.asked[-1] == (610, 2), "it goes on again"


async def test_what_was_sent_ahead_holds_for_a_moment(consumer: Consumer) -> None:
    for offset in range(COUNT, 200, COUNT):
        await consumer.polled(offset)
    assert consumer.ahead.known(200) is not None
    consumer.clock.now += FRESH_SECONDS * 1.01
    assert consumer.ahead.known(210) is None
    consumer.clock.now -= FRESH_SECONDS
    assert consumer.ahead.known(210) is None, "it is forgotten"
    await consumer.polled(210)
    assert consumer.asked[-1] == (210, 2), "a slow client gets less ahead"


async def test_more_is_requested_once(consumer: Consumer) -> None:
    for offset in range(COUNT, 360, COUNT):
        await consumer.polled(offset)
    before = len(consumer.asked)
    # Nobody reads from the connection to the owner between these.
    for offset in (510, 520, 530, 540, 510, 520):
        assert consumer.ahead.known(offset) is not None
    assert consumer.asked[before:] == [(680, AHEAD_MAX)]
    assert consumer.ahead.known(680) is None, "it has not arrived"
    await asyncio.gather(*consumer.under_way)
    assert consumer.ahead.known(680) is not None


async def test_the_last_message_is_never_sent_ahead(consumer: Consumer) -> None:
    """Or a client would take it for the last one, and not see what has arrived behind it."""
    consumer.begin(970)
    await consumer.polled(980)
    assert consumer.ahead.known(990) is None
    await consumer.append(b"1000", b"1001")
    assert (await consumer.polled(990)).current_offset == 1001
    assert await consumer.payloads(1000) == [b"1000", b"1001"]
    assert await consumer.payloads(1002) == []


async def test_polls_of_any_size_get_what_they_ask_for(consumer: Consumer) -> None:
    for count in (1, 3, 99, 600, 5000, 0):
        consumer.begin(0, count)
        for offset in range(count, min(MESSAGES, 40 * count) if count else 3, count or 1):
            assert await consumer.payloads(offset) == EXPECTED[offset : offset + count]


async def test_the_bound_of_the_bytes_holds_for_every_poll(consumer: Consumer) -> None:
    await consumer.append(*[b"x" * 5000] * 50, *[b"y"] * 50)
    consumer.begin(MESSAGES - 100, size_max=30_000)
    offset = MESSAGES - 90
    while (polled := await consumer.polled(offset)).reading.count:
        assert polled.reading.size <= 30_000
        offset += polled.reading.count
    assert offset == MESSAGES + 100


async def test_nothing_is_known_after_a_purge(consumer: Consumer) -> None:
    for offset in (10, 20):
        await consumer.polled(offset)
    # An answer that is on its way is too old when it arrives.
    late = consumer.ahead.ask(30, lambda polled: polled)
    await consumer.purge()
    assert consumer.ahead.known(20) is None
    await late
    assert consumer.ahead.known(40) is None
    assert await consumer.payloads(40) == []


async def test_what_a_lost_peer_sent_is_forgotten(consumer: Consumer) -> None:
    for offset in (10, 20):
        await consumer.polled(offset)
    assert consumer.ahead.known(30) is not None
    polls = consumer.asker.plane._polls
    (file,) = polls._received[1]
    consumer.asker.bus.links.on_peer_lost(1)
    assert consumer.ahead.known(30) is None
    assert consumer.asker.plane.files_held == 0
    # The process that replaces it numbers its files from the beginning again.
    announcement = _ENCODER.encode(Announcement(1, "/other.log"))
    polls._file_announced(Arrived(1, announcement, [os.dup(file.fileno())]))
    assert polls.file_of(1, 1) is not None
    assert consumer.ahead.known(30) is None


async def test_a_file_that_is_gone_is_not_read(consumer: Consumer) -> None:
    for offset in (10, 20):
        await consumer.polled(offset)
    assert consumer.ahead.known(30) is not None
    received = consumer.asker.plane._polls._received[1]
    received.drop(list(received._files))
    assert consumer.ahead.known(30) is None


@settings(max_examples=60)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("on"), st.integers(1, 60)),
            st.tuples(st.just("jump"), st.integers(0, 400)),
            st.tuples(st.just("append"), st.integers(1, 90)),
            st.tuples(st.just("count"), st.integers(1, 30)),
            st.tuples(st.just("purge"), st.just(0)),
            st.tuples(st.just("wait"), st.just(0)),
        ),
        max_size=25,
    )
)
def test_whatever_happens_a_poll_finds_what_is_there(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    asyncio.run(_polls_find_what_is_there(tmp_path_factory.mktemp("shards"), steps))


async def _polls_find_what_is_there(directory: Path, steps: list[tuple[str, int]]) -> None:
    async with two_shards(directory) as pair:
        consumer = Consumer(pair)
        held: list[bytes] = []
        offset, count, number = 0, COUNT, 0

        async def add(much: int) -> None:
            nonlocal number
            payloads = [b"%d" % one for one in range(number, number + much)]
            number += much
            held.extend(payloads)
            await consumer.append(*payloads)

        async def poll() -> None:
            nonlocal offset
            found = await consumer.payloads(offset)
            assert found == held[offset : offset + count]
            offset += len(found)

        await add(200)
        for step, value in steps:
            match step:
                case "on":
                    for _ in range(value):
                        await poll()
                case "jump":
                    offset = value
                    await poll()
                case "append":
                    await add(value)
                case "count":
                    count = value
                    consumer.begin(offset, count)
                case "purge":
                    await consumer.purge()
                    held.clear()
                    offset = 0
                case "wait":
                    consumer.clock.now += FRESH_SECONDS * 2
