"""Large frames before a real dispatcher: refused without memory, or admitted if there is room."""

import pytest
from tests.support.conversations import (
    PING,
    Sink,
    batch_frame,
    frame,
    root_talk,
    stored,
    stranger_talk,
    talk_of,
)
from tests.support.embedded import EmbeddedServer, with_topic
from tests.support.listening import turns

from borzoi.listeners.binary import DONE, failed
from borzoi.listeners.connection import (
    Conversation,
)
from borzoi.memory.pool import MemoryPool
from borzoi.model.errors import StreamNotFound
from borzoi.model.limits import (
    BATCH_BYTES_MAX,
    CONTROL_PAYLOAD_BYTES_MAX,
    UNAUTHENTICATED_BYTES_MAX,
)
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.messages import (
    SEND_METADATA_BYTES_MAX,
)
from borzoi.protocol.commands.users import CreateUser
from borzoi.protocol.errors import code_of
from borzoi.protocol.framing import REQUEST_PREFIX


async def test_a_control_frame_beyond_the_limit_is_refused_at_its_prefix_and_ends_it(
    talk: Conversation, sink: Sink
) -> None:
    talk.feed(memoryview(REQUEST_PREFIX.pack(CONTROL_PAYLOAD_BYTES_MAX + 5, int(Code.GET_ME))))
    assert sink.sent == [failed(3)]
    assert sink.finished
    talk.feed(memoryview(PING))
    assert sink.sent == [failed(3)]


async def test_the_largest_control_frame_is_read(talk: Conversation, sink: Sink) -> None:
    talk.feed(memoryview(frame(int(Code.PING), bytes(CONTROL_PAYLOAD_BYTES_MAX))))
    assert sink.sent == [DONE]


@pytest.mark.parametrize(
    ("code", "status"),
    [(Code.SEND_MESSAGES, 40), (Code.CREATE_STREAM, 40), (Code.PING, 3), (Code.LOGIN_USER, 3)],
)
async def test_who_is_not_logged_in_cannot_make_us_hold_a_large_frame(
    server: EmbeddedServer, sink: Sink, code: Code, status: int
) -> None:
    pool = MemoryPool(512 << 20)
    talk = stranger_talk(server, sink, pool)
    size = UNAUTHENTICATED_BYTES_MAX + 1
    talk.feed(memoryview(REQUEST_PREFIX.pack(size + 4, int(code))))
    assert talk.wanted is None
    assert talk.inside_frame
    talk.feed(memoryview(bytes(size - 1)))
    assert sink.sent == []
    talk.feed(memoryview(b"\0" + PING))
    assert sink.statuses == [status, 0]
    assert pool.counters().allocations == 0
    pool.close()


async def test_a_batch_beyond_every_bound_is_refused_before_it_gets_memory(
    talk: Conversation, sink: Sink
) -> None:
    talk.feed(memoryview(REQUEST_PREFIX.pack(BATCH_BYTES_MAX + 5, int(Code.SEND_MESSAGES))))
    assert sink.statuses == [3]
    assert talk.wanted is None
    assert sink.finished


def cut_at(size: int) -> tuple[int, ...]:
    """Positions around everything that matters at the start of a large send."""
    ends = (8, 8 + SEND_METADATA_BYTES_MAX)
    return (*(end + more for end in ends for more in (-1, 0, 1)), size - 1)


@pytest.mark.parametrize("cut", cut_at(200_000))
async def test_a_large_send_of_who_may_not_send_gets_no_memory(
    server: EmbeddedServer, sink: Sink, cut: int
) -> None:
    await with_topic(server, partitions=1)
    await server.root().call(CreateUser("bob", "secret"))
    pool = MemoryPool(512 << 20)
    talk = talk_of(1, server, sink, pool)
    sent = batch_frame(b"x" * 200_000)
    talk.feed(sent[:cut])
    talk.feed(sent[cut:])
    talk.feed(memoryview(PING))
    assert sink.statuses == [41, 0]
    assert pool.counters().allocations == 0
    assert server.binary.unfinished.in_use == 0
    assert stored(server) == []
    pool.close()


@pytest.mark.parametrize("cut", cut_at(200_000))
async def test_a_large_send_arrives_whole_wherever_it_is_cut(
    server: EmbeddedServer, talk: Conversation, sink: Sink, cut: int
) -> None:
    await with_topic(server, partitions=1)
    sent = batch_frame(b"x" * 200_000)
    for _ in range(2):
        talk.feed(memoryview(bytearray(sent[:cut])))
        talk.feed(memoryview(bytearray(sent[cut:])))
    assert sink.statuses == [0, 0]
    assert stored(server) == [b"x" * 200_000] * 2
    assert server.binary.unfinished.in_use == 0


async def test_a_large_send_to_nowhere_is_answered_in_step(
    server: EmbeddedServer, talk: Conversation, sink: Sink
) -> None:
    talk.feed(batch_frame(b"x" * 200_000))
    talk.feed(memoryview(PING))
    assert sink.statuses == [code_of(StreamNotFound("")), 0]


async def test_the_metadata_of_a_large_send_moves_with_its_connection(
    talk: Conversation, sink: Sink
) -> None:
    begun = batch_frame(b"x" * 200_000)
    talk.feed(begun[:20])
    assert talk.detach() == bytes(begun[:20])


async def test_who_begins_more_than_there_is_room_for_waits(
    server: EmbeddedServer, pool: MemoryPool
) -> None:
    await with_topic(server, partitions=1)
    unfinished = server.binary.unfinished
    unfinished.limit = 500_000
    sent = batch_frame(b"x" * 200_000)
    sinks = [Sink() for _ in range(5)]
    talks = [root_talk(server, sink, pool, number) for number, sink in enumerate(sinks)]
    for talk in talks:
        talk.feed(sent[:5000])
    assert unfinished.waiting == 3
    assert [sink.reading for sink in sinks] == [True, True, False, False, False]
    assert unfinished.in_use <= unfinished.limit
    assert not talks[2].inside_frame, "who waits for room has not stopped in the middle of a frame"
    talks[2].lost()
    talks[3].feed(sent[5000:])
    assert sinks[3].sent == []
    talks[0].feed(sent[5000:])
    await turns(2)
    assert sinks[3].statuses == [0]
    talks[4].lost()
    talks[1].lost()
    await turns(2)
    assert (unfinished.in_use, unfinished.waiting) == (0, 0)
    assert stored(server) == [b"x" * 200_000] * 2


async def test_room_that_comes_too_late_is_given_back(
    server: EmbeddedServer, pool: MemoryPool
) -> None:
    unfinished = server.binary.unfinished
    unfinished.limit = 100_000
    large = memoryview(frame(int(Code.PING), bytes(90_000)))
    sinks = [Sink(), Sink()]
    talks = [root_talk(server, sink, pool, number) for number, sink in enumerate(sinks)]
    for talk in talks:
        talk.feed(large[:5000])
    talks[0].lost()
    assert unfinished.in_use, "it was let in, but its turn has not come yet"
    talks[1].lost()
    await turns(2)
    assert (unfinished.in_use, unfinished.waiting) == (0, 0)
