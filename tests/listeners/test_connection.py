"""The conversation alone, before a real dispatcher: bytes in at any cut, answers out in order."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.conversations import (
    PING,
    Sink,
    answered,
    batch_frame,
    frame,
    root_talk,
    stored,
    stranger_talk,
)
from tests.support.embedded import EmbeddedServer, embedded_server, whole, with_topic
from tests.support.listening import turns
from tests.support.polls import poll_of

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
from borzoi.model.errors import StorageFailure
from borzoi.model.identifiers import ROOT_USER_ID
from borzoi.model.limits import (
    CONTROL_PAYLOAD_BYTES_MAX,
    UNAUTHENTICATED_BYTES_MAX,
)
from borzoi.model.system import TransportKind
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.messages import (
    POLLED_PREFIX,
)
from borzoi.protocol.commands.streams import CreateStream, GetStreams
from borzoi.protocol.commands.system import GetMe, Ping
from borzoi.protocol.commands.topics import PurgeTopic
from borzoi.protocol.commands.users import CreateUser, LoginUser
from borzoi.protocol.contract import Request, encode_payload
from borzoi.protocol.framing import PREFIX_BYTES, REQUEST_PREFIX, RESPONSE_PREFIX, encode_request
from borzoi.records.batch import verify, walk
from borzoi.records.message import decode_messages


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


async def test_what_fits_is_held_also_before_a_login(
    server: EmbeddedServer, sink: Sink, pool: MemoryPool
) -> None:
    talk = stranger_talk(server, sink, pool)
    talk.feed(memoryview(frame(int(Code.PING), bytes(UNAUTHENTICATED_BYTES_MAX))))
    talk.feed(memoryview(encode_request(LoginUser("iggy", "iggy"))))
    await answered(sink, 2)
    assert sink.statuses == [0, 0]


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
        talk.feed(memoryview(encode_request(poll_of(100))))
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
