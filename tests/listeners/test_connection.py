"""The conversation alone, before a real dispatcher: bytes in at any cut, answers out in order."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.conversations import PING, Sink, answered, frame
from tests.support.embedded import EmbeddedServer, asked, embedded_server, whole, with_topic
from tests.support.listening import turns
from tests.support.sends import send_frame

from borzoi.handlers.sessions import Session
from borzoi.listeners.binary import DONE, RangesReply, Reply, failed
from borzoi.listeners.connection import (
    PIPELINED_BYTES_MAX,
    TRANSITIONS,
    Conversation,
    State,
)
from borzoi.listeners.shares import FRAMES_BEFORE_LOGIN, FRAMES_PER_TURN
from borzoi.memory.pool import MemoryPool, PooledBuffer
from borzoi.model.consuming import Consumer, ConsumerKind, PollingStrategy
from borzoi.model.errors import StorageFailure, StreamNotFound
from borzoi.model.identifiers import ROOT_USER_ID
from borzoi.model.limits import (
    BATCH_BYTES_MAX,
    CONTROL_PAYLOAD_BYTES_MAX,
    UNAUTHENTICATED_BYTES_MAX,
)
from borzoi.model.namespace import Namespace
from borzoi.model.system import TransportKind
from borzoi.partitions.operations import Poll
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.messages import (
    POLLED_PREFIX,
    SEND_METADATA_BYTES_MAX,
    PollMessages,
)
from borzoi.protocol.commands.streams import CreateStream, GetStreams
from borzoi.protocol.commands.system import GetMe, Ping
from borzoi.protocol.commands.topics import PurgeTopic
from borzoi.protocol.commands.users import CreateUser, LoginUser
from borzoi.protocol.contract import Request, encode_payload
from borzoi.protocol.errors import code_of
from borzoi.protocol.framing import PREFIX_BYTES, REQUEST_PREFIX, RESPONSE_PREFIX, encode_request
from borzoi.records.batch import verify, walk
from borzoi.records.message import decode_messages


@pytest.fixture
def pool() -> MemoryPool:
    return MemoryPool.disabled()


@pytest.fixture
def sink() -> Sink:
    return Sink()


def stranger_talk(server: EmbeddedServer, sink: Sink, pool: MemoryPool) -> Conversation:
    """A conversation that nobody is logged in on."""
    session = Session(1, "127.0.0.1:1", TransportKind.TCP, lambda: None, 0.0)
    return Conversation(session, server.binary, sink, pool)


@pytest.fixture
def talk(server: EmbeddedServer, sink: Sink, pool: MemoryPool) -> Conversation:
    """A conversation that root is logged in on."""
    session = Session(1, "127.0.0.1:1", TransportKind.TCP, lambda: None, 0.0, user_id=ROOT_USER_ID)
    server.services.sessions.add(session)
    return Conversation(session, server.binary, sink, pool)


async def test_one_byte_at_a_time_is_as_good_as_all_at_once(talk: Conversation, sink: Sink) -> None:
    for byte in PING + encode_request(GetStreams()) + PING:
        talk.feed(memoryview(bytes([byte])))
    assert sink.sent == [DONE, DONE, DONE]
    assert not talk.inside_frame


async def test_frames_survive_any_chunking(server: EmbeddedServer, pool: MemoryPool) -> None:
    """Frames of every size around the limits, cut anywhere: as many answers, in order."""
    frames = [
        PING,
        frame(int(Code.PING), bytes(100_000)),
        frame(999, bytes(10)),
        encode_request(GetStreams()),
        frame(int(Code.GET_STREAM), b"\x09"),
    ]
    expected = {id(one): status for one, status in zip(frames, (0, 0, 3, 0, 3), strict=True)}

    @given(st.lists(st.sampled_from(frames), min_size=1, max_size=8), st.data())
    def check(sent: list[bytes], data: st.DataObject) -> None:
        sink = Sink()
        session = Session(
            1, "1.1.1.1:1", TransportKind.TCP, lambda: None, 0.0, user_id=ROOT_USER_ID
        )
        talk = Conversation(session, server.binary, sink, pool)
        wire = memoryview(b"".join(sent))
        while wire:
            cut = data.draw(st.one_of(st.integers(1, min(20, len(wire))), st.just(len(wire))))
            talk.feed(wire[:cut])
            wire = wire[cut:]
        assert sink.statuses == [expected[id(one)] for one in sent]

    check()


async def test_garbage_is_answered_or_waited_for(server: EmbeddedServer, pool: MemoryPool) -> None:
    """Whatever a stranger sends, however it is cut: errors in whole frames, and no exception."""

    @given(st.binary(max_size=200), st.data())
    def check(garbage: bytes, data: st.DataObject) -> None:
        sink = Sink()
        talk = stranger_talk(server, sink, pool)
        wire = memoryview(garbage)
        while wire:
            cut = data.draw(st.integers(1, len(wire)))
            talk.feed(wire[:cut])
            wire = wire[cut:]
        assert len(sink.sent) <= len(garbage) // PREFIX_BYTES

    check()


async def test_requests_sent_ahead_are_answered_in_order(talk: Conversation, sink: Sink) -> None:
    """The first has to wait for a thread; those behind it would be ready long before."""
    ahead: list[Request] = [CreateUser("bob", "secret"), GetMe(), CreateStream("s"), Ping()]
    talk.feed(memoryview(b"".join(encode_request(one) for one in ahead)))
    assert sink.sent == []
    await answered(sink, 4)
    assert sink.statuses == [0, 0, 0, 0]
    assert [len(whole(reply)) > RESPONSE_PREFIX.size for reply in sink.sent] == [True] * 3 + [False]


async def test_who_sends_too_far_ahead_is_not_read_from(talk: Conversation, sink: Sink) -> None:
    talk.feed(memoryview(encode_request(CreateUser("bob", "secret"))))
    pings = PIPELINED_BYTES_MAX // len(PING)
    talk.feed(memoryview(PING * pings))
    paused = not sink.reading
    await answered(sink, 1 + pings)
    assert paused
    assert sink.reading
    assert sink.statuses == [0] * (1 + pings)


async def test_nothing_is_begun_while_the_peer_takes_nothing(
    talk: Conversation, sink: Sink
) -> None:
    talk.blocked = True
    talk.received(memoryview(PING * 3))
    assert sink.sent == []
    paused = not sink.reading
    talk.unblocked()
    assert sink.sent == [DONE] * 3
    assert paused
    assert sink.reading


async def test_a_frame_too_short_for_its_code_is_refused_and_the_next_one_is_found(
    talk: Conversation, sink: Sink
) -> None:
    talk.feed(memoryview(REQUEST_PREFIX.pack(3, int(Code.PING)) + PING))
    assert sink.statuses == [3, 0]


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


async def test_what_fits_is_held_also_before_a_login(
    server: EmbeddedServer, sink: Sink, pool: MemoryPool
) -> None:
    talk = stranger_talk(server, sink, pool)
    talk.feed(memoryview(frame(int(Code.PING), bytes(UNAUTHENTICATED_BYTES_MAX))))
    talk.feed(memoryview(encode_request(LoginUser("iggy", "iggy"))))
    await answered(sink, 2)
    assert sink.statuses == [0, 0]


async def test_a_buffer_goes_back_to_the_pool_when_its_frame_ran_or_its_connection_went(
    talk: Conversation, server: EmbeddedServer, sink: Sink
) -> None:
    pool = MemoryPool(512 << 20)
    session = Session(2, "127.0.0.1:2", TransportKind.TCP, lambda: None, 0.0, user_id=ROOT_USER_ID)
    talk = Conversation(session, server.binary, sink, pool)
    large = memoryview(frame(int(Code.PING), bytes(200_000)))
    talk.feed(large[:1000])
    assert pool.counters().in_use_bytes
    talk.feed(large[1000:])
    assert pool.counters().in_use_bytes == 0
    talk.feed(large[:1000])
    talk.lost()
    assert pool.counters().in_use_bytes == 0
    pool.close()


class Lender:
    """A listener with a receive buffer, into which a read has put something."""

    def __init__(self, data: memoryview, pool: MemoryPool) -> None:
        self.buffer = pool.acquire(256 << 10)
        self.buffer.view[: len(data)] = data
        self.data = self.buffer.view[: len(data)]
        self.has_lent = False

    def lend(self, size: int) -> PooledBuffer | None:
        self.has_lent = size <= self.buffer.capacity
        return self.buffer if self.has_lent else None


async def test_a_frame_that_fits_stays_where_its_first_bytes_arrived(
    server: EmbeddedServer, sink: Sink
) -> None:
    pool = MemoryPool(512 << 20)
    session = Session(2, "127.0.0.1:2", TransportKind.TCP, lambda: None, 0.0, user_id=ROOT_USER_ID)
    talk = Conversation(session, server.binary, sink, pool)
    whole = memoryview(PING + frame(int(Code.PING), bytes(200_000)))
    lender = Lender(whole[:1000], pool)
    talk.received(lender.data, lender)
    assert lender.has_lent
    buffer, rest = lender.buffer, talk.wanted
    assert rest is not None
    buffer.view[1000 : len(whole)] = b"\x01" * (len(whole) - 1000)
    assert rest == buffer.view[1000 : len(whole)]
    assert pool.counters().allocations == 1
    talk.filled(len(rest))
    assert sink.statuses == [0, 0]
    assert pool.counters().in_use_bytes == 0
    pool.close()


@pytest.mark.parametrize(
    ("first", "size"),
    [(b"", UNAUTHENTICATED_BYTES_MAX), (b"", (256 << 10) - 7), (PING[:3], 100_000)],
    ids=["small", "too large", "behind a prefix that came in two parts"],
)
async def test_any_other_frame_leaves_the_listener_its_buffer(
    server: EmbeddedServer, sink: Sink, first: bytes, size: int
) -> None:
    pool = MemoryPool(512 << 20)
    session = Session(2, "127.0.0.1:2", TransportKind.TCP, lambda: None, 0.0, user_id=ROOT_USER_ID)
    talk = Conversation(session, server.binary, sink, pool)
    whole = memoryview(frame(int(Code.PING), bytes(size)))
    if first:
        talk.received(memoryview(first))
        whole = memoryview(PING[3:] + bytes(whole))
    lender = Lender(whole[:1000], pool)
    talk.received(lender.data, lender)
    assert not lender.has_lent
    lender.buffer.view[:1000] = b"\xaa" * 1000
    pool.release(lender.buffer)
    talk.feed(whole[1000:])
    assert set(sink.statuses) == {0}
    assert pool.counters().in_use_bytes == 0
    pool.close()


async def test_an_answer_that_comes_after_the_end_is_nobodys(
    talk: Conversation, sink: Sink
) -> None:
    talk.feed(memoryview(encode_request(CreateStream("s")) + PING))
    talk.lost()
    await turns(100)
    assert sink.sent == []


class PoisonedPool(MemoryPool):
    """Overwrites a buffer when it is released, so a later use of it is noticed."""

    def release(self, buffer: PooledBuffer) -> None:
        buffer.view[:] = b"\xaa" * len(buffer.view)
        super().release(buffer)


def batch_frame(*payloads: bytes) -> memoryview:
    return memoryview(send_frame(*payloads))


def root_talk(server: EmbeddedServer, sink: Sink, pool: MemoryPool, number: int) -> Conversation:
    session = Session(
        number, "127.0.0.1:1", TransportKind.TCP, lambda: None, 0.0, user_id=ROOT_USER_ID
    )
    return Conversation(session, server.binary, sink, pool)


def stored(server: EmbeddedServer, start: int = 0) -> list[bytes]:
    """The payloads of all messages; raises when a checksum is wrong."""
    polled = asked(
        server.services.partitions,
        Namespace(0, 0, 0),
        Poll(PollingStrategy.offset(start), 1_000_000, ConsumerKind.CONSUMER, 1),
    )
    found = polled.reading.materialise()
    assert verify(walk(memoryview(found))) is None
    return [bytes(message.payload) for message in decode_messages(found)]


@pytest.mark.parametrize("deduplication", ["false", "true"])
@pytest.mark.parametrize("acknowledge", ["buffered", "written", "synced"])
async def test_a_buffer_is_given_back_only_when_nobody_needs_its_batch_any_more(
    tmp_path: Path, acknowledge: str, deduplication: str
) -> None:
    settings = {
        "SYSTEM_PARTITION_ACKNOWLEDGE": acknowledge,
        "SYSTEM_PARTITION_SIZE_OF_MESSAGES_REQUIRED_TO_SAVE": "300 KB",
        "SYSTEM_PARTITION_MESSAGES_REQUIRED_TO_SAVE": "100",
        "SYSTEM_SEGMENT_SIZE": "1 MiB",
        "SYSTEM_MESSAGE_DEDUPLICATION_ENABLED": deduplication,
    }
    pool = PoisonedPool(64 << 20)
    async with embedded_server(tmp_path, settings) as server:
        await with_topic(server, partitions=1)
        sent: list[bytes] = []
        for turn in range(20):
            # Many in one turn of the loop: the first is written at once, the others wait together;
            # below and above the size that never waits; some whose client goes away meanwhile.
            sinks = [Sink() for _ in range(8)]
            for number, sink in enumerate(sinks):
                talk = root_talk(server, sink, pool, number + 1)
                size = (100, 9_000, 70_000, 20_000)[(turn + number) % 4]
                payloads = [bytes([65 + turn, 65 + number, 65 + part]) * size for part in (0, 1)]
                frame = batch_frame(*payloads)
                talk.feed(frame[:100])
                talk.feed(frame[100:])
                sent += payloads
                if number == 5:
                    talk.lost()
            for number, sink in enumerate(sinks):
                await answered(sink, 0 if number == 5 else 1)
                assert set(sink.statuses) <= {0}
            await turns(3)
        await server.dispatcher.drain()
        await turns(3)
        assert pool.counters().in_use_bytes == 0
        assert stored(server) == sent
    async with embedded_server(tmp_path, settings) as server:
        assert stored(server) == sent
    pool.close()


async def test_a_poll_that_is_not_sent_yet_keeps_what_it_found(tmp_path: Path) -> None:
    settings = {
        "SYSTEM_PARTITION_ACKNOWLEDGE": "buffered",
        "SYSTEM_PARTITION_SIZE_OF_MESSAGES_REQUIRED_TO_SAVE": "100 KB",
    }
    pool = PoisonedPool(64 << 20)
    async with embedded_server(tmp_path, settings) as server:
        await with_topic(server, partitions=1)
        sink = Sink()
        talk = root_talk(server, sink, pool, 1)
        sent = [b"a" * 110_000, b"b" * 40_000, b"c" * 40_000]
        for payload in sent:
            talk.feed(batch_frame(payload)[:100])
            talk.feed(batch_frame(payload)[100:])
        poll = PollMessages(
            Consumer(ConsumerKind.CONSUMER, 1), "s", "t", 0, PollingStrategy.first(), 100, False
        )
        talk.feed(memoryview(encode_request(poll)))
        held = sink.sent[-1]
        assert isinstance(held, RangesReply)
        assert held.tail
        # The tail is saved, its segment is purged, and its buffers are used by others.
        for letter in b"defg":
            talk.feed(batch_frame(bytes([letter]) * 60_000)[:100])
            talk.feed(batch_frame(bytes([letter]) * 60_000)[100:])
        found = whole(held)[RESPONSE_PREFIX.size + POLLED_PREFIX.size :]
        assert verify(walk(memoryview(found))) is None
        assert [bytes(message.payload) for message in decode_messages(found)] == sent
        tail = b"".join(one for one in held.tail if isinstance(one, memoryview))
        await server.root().call(PurgeTopic("s", "t"))
        talk.feed(batch_frame(b"h" * 110_000))
        assert b"".join(one for one in held.tail if isinstance(one, memoryview)) == tail
        # The space of purged files is free at once, even while they are read.
        with pytest.raises(StorageFailure, match="is closed"):
            whole(held)
    pool.close()


async def test_a_stranger_is_not_read_from_while_its_login_runs(
    server: EmbeddedServer, sink: Sink, pool: MemoryPool
) -> None:
    talk = stranger_talk(server, sink, pool)
    talk.received(memoryview(encode_request(LoginUser("iggy", "iggy")) + PING * 1000))
    seen = [sink.reading]
    await answered(sink, 1001)
    assert [*seen, sink.reading] == [False, True]
    assert sink.statuses == [0] * 1001


async def test_only_a_batch_keeps_its_buffer_while_it_runs(
    server: EmbeddedServer, sink: Sink
) -> None:
    pool = PoisonedPool(64 << 20)
    talk = root_talk(server, sink, pool, 1)
    padded = frame(int(Code.CREATE_STREAM), encode_payload(CreateStream("s")) + bytes(200_000))
    talk.feed(memoryview(padded)[:1000])
    talk.feed(memoryview(padded)[1000:])
    assert sink.sent == []
    assert pool.counters().in_use_bytes == 0
    await answered(sink, 1)
    assert [stream.name for stream in server.services.metadata.state.streams.in_order()] == ["s"]
    pool.close()


async def test_a_batch_beyond_every_bound_is_refused_before_it_gets_memory(
    talk: Conversation, sink: Sink
) -> None:
    talk.feed(memoryview(REQUEST_PREFIX.pack(BATCH_BYTES_MAX + 5, int(Code.SEND_MESSAGES))))
    assert sink.statuses == [3]
    assert talk.wanted is None
    assert sink.finished


async def test_hanging_up_answers_what_runs_and_begins_nothing(
    talk: Conversation, server: EmbeddedServer, sink: Sink
) -> None:
    ahead = encode_request(CreateStream("first")) + encode_request(CreateStream("second"))
    talk.feed(memoryview(ahead))
    talk.hang_up(failed(8))
    seen = [sink.finished]
    await answered(sink, 1)
    assert sink.statuses == [0]
    assert [*seen, sink.finished] == [False, True]
    await turns(20)
    assert [one.name for one in server.services.metadata.state.streams.values()] == ["first"]
    talk.hang_up(failed(8))
    assert sink.statuses == [0]


async def test_hanging_up_on_who_waits_for_nothing_says_farewell(
    talk: Conversation, sink: Sink
) -> None:
    talk.hang_up(failed(8))
    assert sink.statuses == [8]
    assert sink.finished


async def test_a_login_is_given_up_with_its_connection(
    server: EmbeddedServer, sink: Sink, pool: MemoryPool
) -> None:
    talk = stranger_talk(server, sink, pool)
    talk.feed(memoryview(encode_request(LoginUser("iggy", "iggy"))))
    talk.lost()
    await turns(5)
    assert server.dispatcher.waiting == 0
    assert talk.session.user_id is None
    assert sink.sent == []


async def test_a_request_that_will_never_be_answered_ends_its_connection(
    server: EmbeddedServer, sink: Sink, pool: MemoryPool
) -> None:
    talk = stranger_talk(server, sink, pool)
    talk.feed(memoryview(encode_request(LoginUser("iggy", "iggy")) + PING))
    await server.dispatcher.drain()
    await turns(5)
    assert sink.sent == []
    assert sink.finished


class Watched:
    """Every transition of the conversations that are made meanwhile, by event."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: set[tuple[str, State, State]] = set()
        for event in TRANSITIONS:
            monkeypatch.setattr(Conversation, event, self._watching(event))

    def _watching(self, event: str) -> Callable[..., Any]:
        method = getattr(Conversation, event)

        def watched(talk: Conversation, *args: Any) -> Any:
            before = talk.state
            # `answered` begins with a request that is done, whatever comes of it.
            result = method(talk, *args)
            self.seen.add((event, before, talk.state))
            return result

        return watched


async def test_every_transition_is_in_the_table_and_every_row_of_it_occurs(
    server: EmbeddedServer, pool: MemoryPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(monkeypatch)
    large = frame(int(Code.PING), bytes(UNAUTHENTICATED_BYTES_MAX + 1))
    slow = encode_request(CreateUser("bob", "secret"))
    too_large = REQUEST_PREFIX.pack(CONTROL_PAYLOAD_BYTES_MAX + 5, int(Code.PING))
    inputs = (PING, PING[:3], large, large[:1000], slow, too_large, slow + PING + large[:99])
    ends: tuple[Callable[[Conversation], object], ...] = (
        lambda talk: talk.hang_up(failed(8)),
        lambda talk: talk.lost(),
        lambda talk: talk.received(memoryview(PING)) if talk.wanted is None else None,
        lambda talk: talk.unblocked(),
    )
    for user_id in (ROOT_USER_ID, None):
        for first in inputs:
            for blocked in (False, True):
                for end in ends:
                    sink = Sink()
                    session = Session(
                        1, "h:1", TransportKind.TCP, lambda: None, 0.0, user_id=user_id
                    )
                    talk = Conversation(session, server.binary, sink, pool)
                    talk.feed(memoryview(first))
                    talk.blocked = blocked
                    end(talk)
                    end(talk)
                    talk.feed(memoryview(large[:500]))
                    await server.dispatcher.drain()
                    await turns(2)
                    talk.feed(memoryview(PING))
                    talk.unblocked()
                    talk.lost()
                    talk.unblocked()
                    if talk.wanted is None:
                        talk.received(memoryview(PING))
                    talk.hang_up()
    outside = {
        (event, before, after)
        for event, before, after in watched.seen
        if after not in TRANSITIONS[event].get(before, ())
    }
    assert outside == set()
    rows = {(event, state) for event, states in TRANSITIONS.items() for state in states}
    assert rows - {(event, before) for event, before, _ in watched.seen} == set()


async def test_a_conversation_that_is_detached_hands_over_what_it_read(
    server: EmbeddedServer, talk: Conversation, sink: Sink, pool: MemoryPool
) -> None:
    await with_topic(server, partitions=1)
    begun = batch_frame(b"x" * 200_000)
    talk.feed(memoryview(PING))
    talk.feed(begun[:5000])
    assert talk.detach() == bytes(begun[:5000])
    assert talk.state is State.ENDED
    assert sink.sent == [DONE]
    assert not sink.finished


@pytest.mark.parametrize(
    "first",
    [
        encode_request(CreateUser("bob", "secret")),
        frame(int(Code.SEND_MESSAGES), bytes(2 * PIPELINED_BYTES_MAX))[: 2 * PIPELINED_BYTES_MAX],
    ],
    ids=["a request runs", "much has arrived"],
)
async def test_a_conversation_is_not_detached_in_the_middle(
    talk: Conversation, server: EmbeddedServer, first: bytes
) -> None:
    talk.feed(memoryview(first))
    before = talk.state
    assert talk.detach() is None
    assert talk.state is before
    await server.dispatcher.drain()


# ---- turns --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("user_id", "share"), [(None, FRAMES_BEFORE_LOGIN), (ROOT_USER_ID, FRAMES_PER_TURN)]
)
async def test_requests_beyond_a_share_wait_for_a_turn(
    server: EmbeddedServer, sink: Sink, pool: MemoryPool, user_id: int | None, share: int
) -> None:
    session = Session(1, "127.0.0.1:1", TransportKind.TCP, lambda: None, 0.0, user_id=user_id)
    talk = Conversation(session, server.binary, sink, pool)
    talk.received(memoryview(PING * 100 + PING[:3]))
    assert len(sink.sent) == share
    talk.received(memoryview(PING[3:]))
    assert len(sink.sent) == share
    assert talk.input_ended()
    await answered(sink, 101)
    assert sink.statuses == [0] * 101
    assert sink.finished


async def test_shares_of_connections_take_turns(server: EmbeddedServer, pool: MemoryPool) -> None:
    """Every connection has a share between two shares of another; a client with a single
    request does not wait."""
    order: list[int] = []

    class Noting(Sink):
        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

        def send(self, reply: Reply) -> None:
            order.append(self.number)

    talks = []
    for number in range(20):
        session = Session(number, f"127.0.0.1:{number}", TransportKind.TCP, lambda: None, 0.0)
        talks.append(Conversation(session, server.binary, Noting(number), pool))
        talks[-1].received(memoryview(PING * 400))
    assert len(order) == 20 * FRAMES_BEFORE_LOGIN
    while len(order) < 20 * 400:
        await asyncio.sleep(0)
    shares = order[::FRAMES_BEFORE_LOGIN]
    assert shares == list(range(20)) * (400 // FRAMES_BEFORE_LOGIN)


async def test_a_turn_of_a_lost_connection_is_nobodys(talk: Conversation, sink: Sink) -> None:
    talk.received(memoryview(PING * 100))
    talk.lost()
    await turns(10)
    assert len(sink.sent) == FRAMES_PER_TURN


async def test_a_fault_in_a_later_turn_ends_the_connection(
    talk: Conversation, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk.received(memoryview(PING * 100))
    monkeypatch.setattr(Conversation, "_continue", lambda _: 1 / 0)
    await turns(3)
    assert sink.finished


async def test_a_conversation_that_waits_for_its_turn_is_not_detached(talk: Conversation) -> None:
    talk.received(memoryview(PING * 100))
    assert talk.detach() is None


# ---- large sends --------------------------------------------------------------------------------


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
    session = Session(1, "127.0.0.1:1", TransportKind.TCP, lambda: None, 0.0, user_id=1)
    talk = Conversation(session, server.binary, sink, pool)
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
