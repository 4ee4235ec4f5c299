"""Real sockets on loopback in front of a whole server; both ends on one event loop."""

import asyncio
import contextlib
import fcntl
import gc
import logging
import resource
import socket
import sys
import termios
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from tests.support.embedded import EmbeddedServer, embedded_server, with_topic
from tests.support.listening import EVERYTHING, PATIENCE_SECONDS, FrameClient, tcp_listener, turns
from tests.support.polls import READER
from tests.support.sends import send_of

from borzoi.handlers.sessions import Session
from borzoi.listeners.admission import Admission
from borzoi.listeners.binary import RangesReply, failed
from borzoi.listeners.connection import Conversation
from borzoi.listeners.sockets import SocketOptions, host_of, listening_socket, peer_text
from borzoi.listeners.tcp import LARGE_PIECE_BYTES, RECEIVE_BUFFER_BYTES, TcpConnection, TcpListener
from borzoi.memory.pool import PooledBuffer
from borzoi.model.consuming import PollingStrategy
from borzoi.model.errors import StorageFailure
from borzoi.model.limits import CONTROL_PAYLOAD_BYTES_MAX, UNAUTHENTICATED_BYTES_MAX
from borzoi.model.users import GlobalPermissions, Permissions
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.messages import POLLED_PREFIX, PollMessages
from borzoi.protocol.commands.system import GetClients, GetMe, Ping
from borzoi.protocol.commands.users import CreateUser, DeleteUser, GetUsers, LoginUser
from borzoi.protocol.contract import Request
from borzoi.protocol.framing import REQUEST_PREFIX, encode_request
from borzoi.records.message import decode_messages
from borzoi.storage.reading import Produced

PING = encode_request(Ping())


@pytest.fixture
async def listener(server: EmbeddedServer) -> AsyncIterator[TcpListener]:
    async with tcp_listener(server) as listening:
        yield listening


async def until(condition: Callable[[], bool]) -> None:
    """Wait for the condition, looking at it between turns of the loop."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(0.001)


async def gone(listener: TcpListener, left: int = 0) -> None:
    await until(lambda: len(listener.connections) == left)


async def test_a_frame_may_come_one_byte_at_a_time(listener: TcpListener) -> None:
    async with await FrameClient.connect(listener.address) as client:
        for byte in PING:
            await client.send(bytes([byte]))
            await turns(3)
        assert await client.receive() == (0, b"")


async def test_requests_sent_ahead_are_answered_in_order(
    listener: TcpListener, topic: None
) -> None:
    async with await FrameClient.connect(listener.address) as client:
        await client.login()
        requests: list[Request] = [send_of(b"%d" % number) for number in range(50)]
        await client.send(b"".join(encode_request(one) for one in [*requests, GetMe()]))
        for _ in requests:
            assert await client.receive() == (0, b"")
        status, payload = await client.receive()
        assert status == 0
        assert payload
        polled = await client.call(EVERYTHING)
        stored = [message.payload for message in decode_messages(polled.messages)]
        assert stored == [b"%d" % number for number in range(50)]


async def test_a_large_batch_arrives_whole_however_it_is_cut(
    listener: TcpListener, topic: None
) -> None:
    payload = bytes(range(256)) * (5 * LARGE_PIECE_BYTES // 256)
    frame = memoryview(encode_request(send_of(payload)))
    async with await FrameClient.connect(listener.address) as client:
        await client.login()
        for start in range(0, len(frame), 100_001):
            await client.send(frame[start : start + 100_001])
            await turns(5)
        assert await client.receive() == (0, b"")
        polled = await client.call(EVERYTHING)
        assert [message.payload for message in decode_messages(polled.messages)] == [payload]


async def test_a_large_frame_that_has_arrived_is_received_in_one_turn(
    server: EmbeddedServer, topic: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that a large frame fits into the receive buffer of any kernel.
    monkeypatch.setattr("borzoi.listeners.tcp.LARGE_PIECE_BYTES", 4096)
    options = SocketOptions(recv_buffer_bytes=212_992)
    frame = encode_request(send_of(bytes(100_000)))
    wanted: list[memoryview | None] = []
    on_readable = TcpConnection._on_readable

    def noted(connection: TcpConnection) -> None:
        on_readable(connection)
        wanted.append(connection.conversation.wanted)

    monkeypatch.setattr(TcpConnection, "_on_readable", noted)
    async with (
        tcp_listener(server, options=options) as listener,
        await FrameClient.connect(listener.address) as client,
    ):
        await client.login()
        (connection,) = listener.connections
        connection.pause_reading()
        wanted.clear()
        await client.send(frame)
        await until(lambda: unread_bytes(connection) == len(frame))
        connection.resume_reading()
        assert await client.receive() == (0, b"")
        assert wanted == [None]


def unread_bytes(connection: TcpConnection) -> int:
    """How many bytes the kernel has received for a connection."""
    found = bytearray(4)
    fcntl.ioctl(connection._sock.fileno(), termios.FIONREAD, found)
    return int.from_bytes(found, sys.byteorder)


@pytest.mark.parametrize("acknowledge", ["buffered", "written", "synced"])
async def test_large_batches_do_not_write_over_each_other(tmp_path: Path, acknowledge: str) -> None:
    """Their buffers go back to the pool; what is stored must not change when they are reused."""
    settings = {
        "SYSTEM_PARTITION_ACKNOWLEDGE": acknowledge,
        "SYSTEM_PARTITION_SIZE_OF_MESSAGES_REQUIRED_TO_SAVE": "100 MiB",
    }
    async with embedded_server(tmp_path, settings) as server, tcp_listener(server) as listener:
        await with_topic(server, partitions=1)
        sent = [bytes([65 + number]) * 150_000 for number in range(5)]
        async with await FrameClient.connect(listener.address) as client:
            await client.login()
            assert await client.through(*sent) == sent


async def test_a_poll_over_several_segments_is_whole(
    server: EmbeddedServer, listener: TcpListener, topic: None
) -> None:
    """Sent from the files with sendfile: segments are 1 MiB here, the poll is 6 MiB."""
    sent = [bytes([65 + number]) * 300_000 for number in range(20)]
    async with await FrameClient.connect(listener.address) as client:
        await client.login()
        for payload in sent:
            await client.call(send_of(payload))
        files = list((server.directory / "streams").rglob("*.log"))
        assert len(files) > 3
        polled = await client.call(EVERYTHING)
    messages = decode_messages(polled.messages)
    assert [message.payload for message in messages] == sent
    assert [message.offset for message in messages] == list(range(20))


async def test_a_slow_reader_costs_little_memory_and_blocks_nobody(
    server: EmbeddedServer, topic: None
) -> None:
    """It asks for 6 MiB ten times and reads nothing; others are answered meanwhile."""
    options = SocketOptions(send_buffer_bytes=8192)
    async with tcp_listener(server, options=options) as listener:
        async with (
            await FrameClient.connect(listener.address, receive_buffer=8192) as slow,
            await FrameClient.connect(listener.address) as other,
        ):
            await slow.login()
            await other.login()
            for number in range(20):
                await other.call(send_of(bytes([65 + number]) * 300_000))
            before = server.opened.pool.counters().in_use_bytes
            slow.writer.write(encode_request(EVERYTHING) * 10)
            for _ in range(20):
                await other.call(Ping())
            # Answering others does not tell how far it came with the slow one.
            await until(lambda: any(one.conversation.blocked for one in listener.connections))
            (blocked,) = (one for one in listener.connections if one.conversation.blocked)
            # Ranges of files and one head, not the bytes; and only for the first of the requests.
            assert blocked._outgoing is not None
            assert sum(len(p) for p in blocked._outgoing if isinstance(p, bytes)) < 1000
            assert len(blocked._outgoing) < 20
            assert server.opened.pool.counters().in_use_bytes == before
            for _ in range(10):
                status, payload = await slow.receive()
                assert (status, len(payload) > 6_000_000) == (0, True)


async def test_who_asks_and_goes_away_leaves_nothing_behind(
    server: EmbeddedServer, listener: TcpListener, topic: None
) -> None:
    client = await FrameClient.connect(listener.address)
    await client.login()
    for number in range(10):
        await client.call(send_of(bytes([65 + number]) * 300_000))
    client.writer.write(encode_request(EVERYTHING))
    client.writer.transport.abort()
    await gone(listener)
    assert len(server.services.sessions) == 1  # root's, which made the topic
    assert server.opened.pool.counters().in_use_bytes == RECEIVE_BUFFER_BYTES  # its own
    await turns(3)


async def test_a_frame_too_large_before_login_is_answered_and_the_next_one_is_found(
    server: EmbeddedServer, listener: TcpListener
) -> None:
    size = 40 * UNAUTHENTICATED_BYTES_MAX
    allocations = server.opened.pool.counters().allocations
    async with await FrameClient.connect(listener.address) as client:
        await client.send(REQUEST_PREFIX.pack(size + 4, int(Code.SEND_MESSAGES)) + bytes(size))
        assert await client.receive() == (40, b"")
        await client.send(REQUEST_PREFIX.pack(size + 4, int(Code.LOGIN_USER)) + bytes(size))
        assert await client.receive() == (3, b"")
        await client.login()
        await client.call(GetMe())
    # A second buffer for the listener itself, and none for the frame.
    assert server.opened.pool.counters().allocations <= allocations + 1


async def test_a_refusal_reaches_who_is_still_sending_what_was_refused(
    listener: TcpListener,
) -> None:
    """A socket closed with unread bytes would reset, and take the answer back."""
    size = CONTROL_PAYLOAD_BYTES_MAX + 1
    async with await FrameClient.connect(listener.address) as client:
        await client.send(REQUEST_PREFIX.pack(size + 4, int(Code.GET_ME)) + bytes(size))
        assert await client.receive() == (3, b"")
        assert await client.rest() == b""
    await gone(listener)


async def test_half_a_frame_is_given_up_after_a_while_and_not_before(
    server: EmbeddedServer, listener: TcpListener
) -> None:
    ended: list[Session] = []
    async with tcp_listener(server, ended=ended) as listener:
        async with await FrameClient.connect(listener.address) as client:
            assert await client.exchange(PING) == (0, b"")
            (connection,) = listener.connections
            # Between frames a client may be silent for as long as it likes.
            listener.give_up_stalled(listener.loop.time() + 1000)
            assert await client.exchange(PING) == (0, b"")
            begun = listener.loop.time()
            await client.send(PING[:5])
            await until(lambda: connection.conversation.inside_frame)
            listener.give_up_stalled(begun)
            assert connection in listener.connections
            listener.give_up_stalled(listener.loop.time() + 1)
            assert await client.rest() == b""
        assert [session.address for session in ended] == [connection.session.address]


@pytest.mark.parametrize("begun", [PING[:1], encode_request(send_of(bytes(200_000)))[:100_000]])
async def test_a_peer_that_is_gone_in_the_middle_of_a_frame_is_noticed(
    server: EmbeddedServer, listener: TcpListener, topic: None, begun: bytes
) -> None:
    client = await FrameClient.connect(listener.address)
    await client.login()
    (connection,) = listener.connections
    await client.send(begun)
    await until(lambda: connection.conversation.inside_frame)
    client.writer.transport.abort()  # a reset
    async with asyncio.timeout(PATIENCE_SECONDS):
        while listener.connections:
            listener.give_up_stalled(0)  # no connection has stalled since then
            await asyncio.sleep(0)
    assert server.opened.pool.counters().in_use_bytes == RECEIVE_BUFFER_BYTES  # its own


async def test_without_memory_for_another_buffer_nobody_keeps_the_listeners(
    server: EmbeddedServer, listener: TcpListener, topic: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await FrameClient.connect(listener.address) as client:
        await client.login()
        acquire = listener.pool.acquire

        def acquire_small(size: int) -> PooledBuffer:
            if size == RECEIVE_BUFFER_BYTES:
                raise MemoryError
            return acquire(size)

        await client.call(send_of(bytes(200_000)))
        monkeypatch.setattr(listener.pool, "acquire", acquire_small)
        for number in range(3):
            await client.call(send_of(bytes([number]) * 200_000))
        assert listener.lend(200_000) is None
        monkeypatch.undo()
        await client.call(send_of(bytes(200_000)))


async def test_a_reader_that_stopped_is_given_up_after_a_while_and_not_before(
    server: EmbeddedServer, topic: None
) -> None:
    async with tcp_listener(server, options=SocketOptions(send_buffer_bytes=8192)) as listener:
        async with await FrameClient.connect(listener.address, receive_buffer=8192) as client:
            await client.login()
            for number in range(10):
                await client.call(send_of(bytes([65 + number]) * 300_000))
            asked = listener.loop.time()
            client.writer.write(encode_request(EVERYTHING))
            (connection,) = listener.connections
            await until(lambda: connection.conversation.blocked)
            listener.give_up_stalled(asked)
            assert connection in listener.connections
            listener.give_up_stalled(listener.loop.time() + 1)
            await gone(listener)


async def test_connections_are_limited_in_all_and_per_address(server: EmbeddedServer) -> None:
    async with tcp_listener(server, admission=Admission(2, 10)) as listener:
        first = await FrameClient.connect(listener.address)
        assert await first.exchange(PING) == (0, b"")
        async with await FrameClient.connect(listener.address) as second:
            assert await second.exchange(PING) == (0, b"")
            async with await FrameClient.connect(listener.address) as third:
                assert await third.rest() == b""
            await first.close()
            await gone(listener, left=1)
            async with await FrameClient.connect(listener.address) as fourth:
                assert await fourth.exchange(PING) == (0, b"")
    async with tcp_listener(server, admission=Admission(10, 1)) as listener:
        async with (
            await FrameClient.connect(listener.address) as only,
            await FrameClient.connect(listener.address) as another,
        ):
            assert await only.exchange(PING) == (0, b"")
            assert await another.rest() == b""


async def test_a_session_lasts_as_long_as_its_connection(
    server: EmbeddedServer, listener: TcpListener
) -> None:
    async with await FrameClient.connect(listener.address) as client:
        await client.login()
        host, port = client.writer.get_extra_info("sockname")
        (seen,) = (await client.call(GetClients())).clients
        assert (seen.address, seen.user_id) == (f"{host}:{port}", 0)
    await gone(listener)
    assert len(server.services.sessions) == 0


async def test_hanging_up_ends_the_session_at_once(
    server: EmbeddedServer, listener: TcpListener
) -> None:
    async with await FrameClient.connect(listener.address) as client:
        assert await client.exchange(PING) == (0, b"")
        (session,) = server.services.sessions
        session.hang_up()
        assert len(server.services.sessions) == 0
        assert await client.rest() == b""
    await gone(listener)


async def test_a_farewell_is_the_last_that_everyone_hears(listener: TcpListener) -> None:
    async with (
        await FrameClient.connect(listener.address) as one,
        await FrameClient.connect(listener.address) as two,
    ):
        for client in (one, two):
            assert await client.exchange(PING) == (0, b"")
        listener.stop_accepting()
        listener.say_goodbye(failed(8))
        assert await one.rest() == failed(8)
        assert await two.rest() == failed(8)
        with pytest.raises(ConnectionError):
            await FrameClient.connect(listener.address)


async def test_without_descriptors_those_who_wait_are_served_later(
    listener: TcpListener, caplog: pytest.LogCaptureFixture
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with await FrameClient.connect(listener.address) as there:
        assert await there.exchange(PING) == (0, b"")
        waiting = socket.socket()
        taken = []
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, hard), hard))
        try:
            with contextlib.suppress(OSError):
                while True:
                    taken.append(socket.socket())
            waiting.connect(listener.address)
            await until(lambda: "cannot accept" in caplog.text)
            assert await there.exchange(PING) == (0, b"")
            # It looks again from time to time; a busy loop would have logged thousands of lines.
            assert caplog.text.count("cannot accept") < 10
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for sock in taken:
                sock.close()
        await until(lambda: len(listener.connections) == 2)
        waiting.close()


def test_a_listening_socket_is_shared_only_by_those_who_ask_for_it() -> None:
    with listening_socket(("127.0.0.1", 0)) as sock:
        address = sock.getsockname()
        with listening_socket(address):
            pass
        with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
            stranger.bind(address)


def test_an_address_reads_as_clients_write_it() -> None:
    assert peer_text(("127.0.0.1", 8090)) == "127.0.0.1:8090"
    assert peer_text(("::1", 8090, 0, 0)) == "[::1]:8090"
    assert host_of("127.0.0.1:8090") == "127.0.0.1"
    assert host_of("[::1]:8090") == "::1"


def test_options_are_applied_to_accepted_sockets() -> None:
    options = SocketOptions(10_000, 10_000, keepalive=True, nodelay=True, linger_seconds=3)
    with socket.socket() as sock:
        options.apply(sock)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8)[4] == 3
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 20_000


@pytest.mark.parametrize("broken", ["received", "_run"])
async def test_a_fault_of_ours_ends_its_connection_and_no_other(
    listener: TcpListener, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    async with (
        await FrameClient.connect(listener.address) as unlucky,
        await FrameClient.connect(listener.address) as other,
    ):
        assert await other.exchange(PING) == (0, b"")
        with monkeypatch.context() as patched:
            patched.setattr(Conversation, broken, fail)
            await unlucky.send(PING)
            assert await unlucky.rest() == b""
        assert await other.exchange(PING) == (0, b"")
    await gone(listener)


async def test_who_deletes_itself_is_answered_and_then_gone(listener: TcpListener) -> None:
    async with (
        await FrameClient.connect(listener.address) as root,
        await FrameClient.connect(listener.address) as bob,
        await FrameClient.connect(listener.address) as other,
    ):
        await root.login()
        users = Permissions(GlobalPermissions(manage_users=True))
        await root.call(CreateUser("bob", "secret", permissions=users))
        for client in (bob, other):
            await client.call(LoginUser("bob", "secret"))
        ahead = encode_request(DeleteUser("bob")) + encode_request(CreateUser("eve", "secret"))
        await bob.send(ahead)
        assert await bob.receive() == (0, b"")
        assert await bob.rest() == b""
        assert await other.rest() == b""
        assert [user.username for user in (await root.call(GetUsers())).users] == ["iggy"]


async def test_a_farewell_is_not_taken_for_the_answer_of_a_request_that_runs(
    listener: TcpListener, server: EmbeddedServer
) -> None:
    async with await FrameClient.connect(listener.address) as client:
        await client.login()
        await client.send(encode_request(CreateUser("bob", "secret")))
        await until(lambda: server.dispatcher.waiting == 1)
        listener.say_goodbye(failed(8))
        status, payload = await client.receive()
        assert status == 0
        assert payload
        assert await client.rest() == b""


async def test_clients_of_the_newer_protocol_are_served_alike(server: EmbeddedServer) -> None:
    try:
        sock = listening_socket(("::1", 0))
    except OSError:
        pytest.skip("this machine has no IPv6")
    listener = TcpListener(
        sock,
        binary=server.binary,
        pool=server.opened.pool,
        admission=Admission(10, 1),
        options=SocketOptions(),
        on_connect=server.services.sessions.add,
        on_disconnect=lambda session: None,
    )
    for _ in range(2):
        reader, writer = await asyncio.open_connection(*listener.address)
        async with FrameClient(reader, writer) as client:
            await client.login()
            assert (await client.call(GetMe())).address.startswith("[::1]:")
        await gone(listener)
    listener.close()


async def test_half_a_frame_sent_ahead_has_its_time_from_when_it_is_looked_at(
    listener: TcpListener, server: EmbeddedServer
) -> None:
    async with await FrameClient.connect(listener.address) as client:
        (connection,) = await connected(listener, 1)
        await client.send(encode_request(LoginUser("iggy", "iggy")) + PING[:3])
        await until(lambda: server.dispatcher.waiting == 1)
        began = connection.progressed_at = connection.progressed_at - 1000
        assert (await client.receive())[0] == 0
        assert connection.conversation.inside_frame
        assert not connection.stalled(began + 900)
        await client.send(PING[3:])
        assert await client.receive() == (0, b"")


async def connected(listener: TcpListener, count: int) -> list[TcpConnection]:
    await until(lambda: len(listener.connections) == count)
    return list(listener.connections)


async def test_a_large_poll_leaves_turns_to_others(
    server: EmbeddedServer, listener: TcpListener, topic: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns_taken = 0
    on_writable = TcpConnection._on_writable

    def counted(connection: TcpConnection) -> None:
        nonlocal turns_taken
        turns_taken += 1
        on_writable(connection)

    monkeypatch.setattr(TcpConnection, "_on_writable", counted)
    monkeypatch.setattr("borzoi.listeners.send_queue.SENDFILE_BYTES_MAX", 10_000)
    payloads = [bytes([65 + number]) * 40_000 for number in range(5)]
    async with await FrameClient.connect(listener.address) as client:
        await client.login()
        for payload in payloads:
            await client.call(send_of(payload))
        await client.send(encode_request(EVERYTHING) + PING)
        status, polled = await client.receive()
        assert status == 0
        found = decode_messages(memoryview(polled)[POLLED_PREFIX.size :])
        assert [message.payload for message in found] == payloads
        assert await client.receive() == (0, b"")
    assert turns_taken >= 200_000 // 10_000


async def test_who_only_stops_sending_is_answered_to_the_last_request(
    listener: TcpListener, server: EmbeddedServer, topic: None
) -> None:
    async with await FrameClient.connect(listener.address, receive_buffer=4096) as client:
        await client.login()
        # One that waits, one whose answer is not taken at once, and those behind them.
        requests: list[Request] = [
            send_of(b"x" * 900_000),
            CreateUser("bob", "secret"),
            EVERYTHING,
            GetMe(),
        ]
        await client.send(b"".join(encode_request(one) for one in requests) + PING[:3])
        client.writer.write_eof()
        answers = [await client.receive() for _ in requests]
        assert [status for status, _ in answers] == [0, 0, 0, 0]
        assert await client.rest() == b""
    await gone(listener)
    assert server.opened.pool.counters().in_use_bytes == RECEIVE_BUFFER_BYTES  # its own


class Held(bytearray):
    """Memory whose end can be seen."""


@pytest.mark.parametrize("end", ["the reader hangs up", "it is given up"])
async def test_an_answer_that_was_not_taken_is_not_kept(
    server: EmbeddedServer, topic: None, end: str
) -> None:
    """Nor does anything of the connection wait for the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        async with tcp_listener(server, options=SocketOptions(send_buffer_bytes=8192)) as listener:
            client = await FrameClient.connect(listener.address, receive_buffer=8192)
            await client.login()
            (connection,) = listener.connections
            tail = Held(30_000_000)
            held = weakref.ref(tail)
            head = REQUEST_PREFIX.pack(0, len(tail))
            connection.send(RangesReply(head, [], [memoryview(tail)]))
            del tail
            assert connection.conversation.blocked
            assert await client.reader.readexactly(1000)
            assert held() is not None
            if end == "it is given up":
                listener.give_up_stalled(asyncio.get_running_loop().time() + 1)
            del connection
            await client.close()
            await until(lambda: not listener.connections)
            await turns(3)
            assert held() is None
        kept = [one for one in gc.get_objects() if isinstance(one, TcpConnection | Conversation)]
        assert kept == []
    finally:
        gc.enable()


WAITING = PollMessages(
    READER, "s", "t", 0, PollingStrategy.offset(1_000_000), 10, False, wait_ms=60_000
)


async def client_whose_poll_waits(listener: TcpListener) -> tuple[FrameClient, TcpConnection]:
    client = await FrameClient.connect(listener.address)
    await client.login()
    await client.ask(WAITING)
    (connection,) = listener.connections
    await until(lambda: connection.session.waiting)
    return client, connection


@pytest.mark.parametrize("ends", ["it closes", "it stops sending"])
async def test_who_closes_while_its_poll_waits_is_noticed_at_once(
    server: EmbeddedServer, listener: TcpListener, topic: None, ends: str
) -> None:
    client, _ = await client_whose_poll_waits(listener)
    began = asyncio.get_running_loop().time()
    if ends == "it closes":
        client.writer.close()
    else:
        client.writer.write_eof()
        status, payload = await client.receive()
        assert (status, len(payload)) == (0, POLLED_PREFIX.size)
        assert await client.rest() == b""
    await gone(listener)
    assert asyncio.get_running_loop().time() - began < WAITING.wait_ms / 1000 / 2
    assert server.dispatcher.waiting == 0
    client.writer.close()


async def test_a_session_that_is_ended_while_its_poll_waits_is_answered(
    server: EmbeddedServer, listener: TcpListener, topic: None
) -> None:
    client, connection = await client_whose_poll_waits(listener)
    connection.session.hang_up()
    status, payload = await client.receive()
    assert (status, len(payload)) == (0, POLLED_PREFIX.size)
    assert await client.rest() == b""
    client.writer.close()
    await gone(listener)


class Deleted(Produced):
    """Messages whose files are deleted while they are sent."""

    def slices(self) -> Iterator[bytes]:
        yield b"x"
        raise StorageFailure("no such file")


async def test_messages_deleted_while_they_are_sent_end_the_connection_without_a_traceback(
    listener: TcpListener, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    client = await FrameClient.connect(listener.address)
    await client.login()
    (connection,) = listener.connections
    connection.send(RangesReply(b"head", [], [Deleted(1000)]))
    assert await client.reader.read() == b"headx"
    await client.close()
    assert any("no such file" in message for message in caplog.messages)
    assert not [record for record in caplog.records if record.exc_info]
