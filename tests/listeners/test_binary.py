"""Frames in, frames out; what the commands do is tested in tests/handlers."""

import logging
from asyncio import Future
from pathlib import Path
from unittest.mock import Mock

import pytest
from tests.support.embedded import (
    BROKEN_ROWS,
    EmbeddedClient,
    EmbeddedServer,
    embedded_server,
    sent,
    whole,
    with_topic,
)
from tests.support.polls import poll_of
from tests.support.sends import send_of

from borzoi.handlers.answers import NOTHING_DELIVERED, Delivery
from borzoi.handlers.dispatch import Dispatcher
from borzoi.handlers.scopes import everywhere
from borzoi.handlers.table import Row
from borzoi.listeners import binary
from borzoi.listeners.binary import (
    DONE,
    READ_BYTES_MAX,
    BinaryProtocol,
    RangesReply,
    encoded,
    failed,
    ok,
)
from borzoi.memory.pool import MemoryPool, Payload
from borzoi.metadata import queries
from borzoi.metadata.permissions import Rule
from borzoi.model.consuming import Consumer, ConsumerKind, PollingStrategy
from borzoi.model.errors import PartitionNotFound
from borzoi.model.limits import HEADER_BYTES
from borzoi.model.partitioning import Partitioning
from borzoi.model.users import GlobalPermissions, Permissions
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.groups import CreateConsumerGroup, JoinConsumerGroup
from borzoi.protocol.commands.messages import PollMessages
from borzoi.protocol.commands.partitions import DeletePartitions
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.system import GetMe, Ping
from borzoi.protocol.commands.tokens import TokenInfo
from borzoi.protocol.commands.users import CreateUser, UpdatePermissions
from borzoi.protocol.contract import encode_payload
from borzoi.protocol.errors import code_of
from borzoi.records.message import decode_messages
from borzoi.storage.reading import Reading


def test_errors_carry_no_payload_and_answers_carry_their_length() -> None:
    assert bytes(8) == DONE == encoded(None)
    assert failed(1009) == (1009).to_bytes(4, "little") + bytes(4)
    assert ok(b"abc") == bytes(4) + b"\x03\0\0\0abc"
    assert encoded(TokenInfo("t", 7)) == ok(encode_payload(TokenInfo("t", 7)))


def test_a_delivery_without_files_is_one_piece() -> None:
    assert encoded(NOTHING_DELIVERED) == ok(bytes(16))
    delivery = Delivery(2, 41, Reading(40, 2, tail=[memoryview(b"ab"), memoryview(b"c")]))
    prefix = b"\2\0\0\0" + (41).to_bytes(8, "little") + b"\2\0\0\0"
    assert encoded(delivery) == ok(prefix + b"abc")


@pytest.mark.parametrize("count", [1, 2])
async def test_stored_messages_stay_in_their_file_unless_they_are_few(
    server: EmbeddedServer, count: int
) -> None:
    await with_topic(server)
    size = READ_BYTES_MAX - HEADER_BYTES
    await sent(server, 2, size=size)
    payload = Payload(memoryview(encode_payload(poll_of(count))))
    reply = server.binary.respond(server.root().session, Code.POLL_MESSAGES, payload)
    assert not isinstance(reply, Future)
    assert isinstance(reply, RangesReply) == (count == 2)
    content = whole(reply)
    assert int.from_bytes(content[4:8], "little") == len(content) - 8
    messages = decode_messages(content[24:])
    assert [bytes(message.payload) for message in messages] == [b"x" * size] * count


async def test_an_unknown_code_is_an_invalid_command(server: EmbeddedServer) -> None:
    assert await server.connect().exchange(9999, b"") == (3, b"")


async def test_decoding_comes_before_authentication(server: EmbeddedServer) -> None:
    client = server.connect()
    assert await client.exchange(Code.GET_STREAM, b"\x09\x01x") == (3, b"")
    assert await client.exchange(Code.GET_STREAM, b"\x02\x01x") == (40, b"")


async def test_what_is_missing_is_an_empty_answer_or_an_error(server: EmbeddedServer) -> None:
    client = server.root()
    assert await client.exchange(Code.GET_STREAM, b"\x02\x01x") == (0, b"")
    assert await client.exchange(Code.DELETE_STREAM, b"\x02\x01x") == (1009, b"")


@pytest.mark.parametrize("acknowledge", ["written", "synced"])
async def test_a_change_that_waits_for_the_disk_is_answered_through_a_future(
    tmp_path: Path, acknowledge: str
) -> None:
    settings = {"SYSTEM_STATE_ENFORCE_FSYNC": "true", "SYSTEM_PARTITION_ACKNOWLEDGE": acknowledge}
    async with embedded_server(tmp_path, settings) as server:
        root = server.root()
        payload = Payload(memoryview(encode_payload(CreateStream("s"))))
        begun = server.binary.respond(root.session, Code.CREATE_STREAM, payload)
        assert isinstance(begun, Future)
        await server.dispatcher.drain()
        reply = server.binary.reply_to(root.session, Code.CREATE_STREAM, begun)
        assert whole(reply)[:4] == bytes(4)
        again = server.binary.respond(root.session, Code.CREATE_STREAM, payload)
        assert isinstance(again, Future)
        await server.dispatcher.drain()
        assert server.binary.reply_to(root.session, Code.CREATE_STREAM, again) == failed(1012)


async def test_a_fault_of_the_server_is_a_status_and_a_line_in_the_log(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("borzoi.handlers.dispatch.COMMANDS", BROKEN_ROWS)
    server.binary = BinaryProtocol(Dispatcher(server.services))
    logging.getLogger("borzoi").propagate = True
    assert await server.root().exchange(Code.PING, b"") == (1, b"")
    assert await server.root().exchange(Code.GET_ME, b"") == (1, b"")
    assert caplog.text.count("Traceback") == 2
    assert "ZeroDivisionError" in caplog.text


async def test_an_answer_that_cannot_be_encoded_is_a_fault_of_the_server_too(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unfit(request: object, call: object) -> object:
        return TokenInfo("x" * 300, 0)

    async def unfit_later(request: object, call: object) -> object:
        return TokenInfo("x" * 300, 0)

    rows = (
        Row(Ping, Rule.ANYONE, everywhere, unfit),
        Row(GetMe, Rule.LOGGED_IN, everywhere, unfit_later),
    )
    monkeypatch.setattr("borzoi.handlers.dispatch.COMMANDS", rows)
    server.binary = BinaryProtocol(Dispatcher(server.services))
    assert (await server.root().exchange(Code.PING, b""))[0] != 0
    assert (await server.root().exchange(Code.GET_ME, b""))[0] != 0


# Requests that repeat.


def send_payload(
    partitioning: Partitioning, count: int = 1, *, trailing: bytes = b""
) -> memoryview:
    """A send; `trailing` follows the last field of its metadata."""
    plain = encode_payload(send_of(*[b"m"] * count, partitioning=partitioning))
    fields_end = 4 + int.from_bytes(plain[:4], "little")
    length = (fields_end - 4 + len(trailing)).to_bytes(4, "little")
    return memoryview(bytearray(length + plain[4:fields_end] + trailing + plain[fields_end:]))


async def stored_count(client: EmbeddedClient) -> int:
    """Messages in the first partition."""
    consumer = Consumer(ConsumerKind.CONSUMER, 99)
    everything = PollMessages(consumer, "s", "t", 0, PollingStrategy.first(), 1000)
    polled = await client.call(everything)
    count: int = polled.messages_count
    return count


def resolving(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Counts how often topics are resolved from now on."""
    counted = Mock(wraps=queries.topic_of)
    monkeypatch.setattr(queries, "topic_of", counted)
    return counted


async def test_a_send_resolves_its_topic_once_and_its_repetitions_never(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await with_topic(server)
    root, other = server.root(), server.root()
    counted = resolving(monkeypatch)
    for client, partition, expected in (
        (root, 0, 1),
        (root, 0, 1),
        (other, 0, 1),  # the same user
        (other, 1, 2),
        (root, 1, 2),
    ):
        sent = send_payload(Partitioning.partition(partition), 3)
        assert whole(await client.reply(Code.SEND_MESSAGES, sent)) == DONE
        assert counted.call_count == expected


async def test_a_repeated_send_needs_the_permission_of_its_own_user(
    server: EmbeddedServer,
) -> None:
    await with_topic(server)
    await server.root().call(CreateUser("bob", "secret"))
    bob = server.connect(user_id=1)
    sent = send_payload(Partitioning.partition(0))
    assert whole(await server.root().reply(Code.SEND_MESSAGES, sent)) == DONE
    assert whole(await bob.reply(Code.SEND_MESSAGES, sent)) == failed(41)
    anyone = Permissions(GlobalPermissions(send_messages=True))
    await server.root().call(UpdatePermissions(1, anyone))
    assert whole(await bob.reply(Code.SEND_MESSAGES, sent)) == DONE
    await server.root().call(UpdatePermissions(1, None))
    assert whole(await bob.reply(Code.SEND_MESSAGES, sent)) == failed(41)
    session = server.connect().session
    assert server.binary.respond(session, Code.SEND_MESSAGES, Payload(sent)) == failed(40)


async def test_metadata_that_goes_on_behind_its_count_is_decoded_each_time(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await with_topic(server)
    root = server.root()
    counted = resolving(monkeypatch)
    for times in (1, 2, 3):
        # The bytes where the count of other sends would be name the same count, and then another.
        for trailing in (b"\2\0\0\0", b"\1\0\0\0"):
            sent = send_payload(Partitioning.partition(0), 2, trailing=trailing)
            assert whole(await root.reply(Code.SEND_MESSAGES, sent)) == DONE
        assert counted.call_count == 2 * times
    assert await stored_count(root) == 12


async def test_a_length_beyond_the_payload_is_an_invalid_command_also_in_a_repetition(
    server: EmbeddedServer,
) -> None:
    await with_topic(server)
    root = server.root()
    plain = bytes(send_payload(Partitioning.partition(0)))
    assert await root.exchange(Code.SEND_MESSAGES, plain) == (0, b"")
    length = int.from_bytes(plain[:4], "little")
    for beyond in (length, length + 1, 500, 1 << 31):
        cut_off = beyond.to_bytes(4, "little") + plain[4:length]
        assert (await root.exchange(Code.SEND_MESSAGES, cut_off))[0] == 3
    for short in (0, 3):
        # The metadata ends inside the first identifier.
        cut_off = short.to_bytes(4, "little") + plain[4:length]
        assert (await root.exchange(Code.SEND_MESSAGES, cut_off))[0] == 6


async def test_batches_in_memory_that_comes_back_are_stored_like_any_other(
    server: EmbeddedServer,
) -> None:
    await with_topic(server)
    root = server.root()
    sent = send_payload(Partitioning.partition(0), 20)
    pool = MemoryPool(1 << 20)
    buffer = pool.acquire(len(sent))
    for _ in range(5):
        buffer.view[: len(sent)] = sent
        payload = buffer.payload(0, len(sent))
        assert await root.reply(Code.SEND_MESSAGES, payload) == DONE
    faulty = send_payload(Partitioning.partition(0), 20)
    faulty[-1 - 16] ^= 1
    buffer.view[: len(sent)] = faulty
    payload = buffer.payload(0, len(sent))
    assert await root.reply(Code.SEND_MESSAGES, payload) != DONE
    assert await stored_count(root) == 100


def poll_payload(
    offset: int, *, kind: ConsumerKind = ConsumerKind.CONSUMER, auto_commit: bool = False
) -> bytes:
    strategy = PollingStrategy.offset(offset)
    return encode_payload(
        PollMessages(Consumer(kind, "reader"), "s", "t", 0, strategy, 10, auto_commit)
    )


async def test_a_poll_resolves_its_topic_once_from_whatever_offset(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await with_topic(server, messages=3)
    root = server.root()
    counted = resolving(monkeypatch)
    for offset, left in ((0, 3), (2, 1), (1, 2)):
        status, payload = await root.exchange(Code.POLL_MESSAGES, poll_payload(offset))
        assert (status, int.from_bytes(payload[12:16], "little")) == (0, left)
        assert counted.call_count == 1
    for _ in range(2):
        await root.exchange(Code.POLL_MESSAGES, poll_payload(0) + b"\0")
    assert counted.call_count > 2
    for unfit in (poll_payload(0)[:13], b"", poll_payload(0)[:-1]):
        assert (await root.exchange(Code.POLL_MESSAGES, unfit))[0] in (3, 6)


async def test_a_repeated_poll_commits_and_is_refused_like_the_first(
    server: EmbeddedServer,
) -> None:
    await with_topic(server, messages=12)
    root = server.root()
    reader = Consumer(ConsumerKind.CONSUMER, "reader")
    following = PollMessages(reader, "s", "t", 0, PollingStrategy.next(), 5, auto_commit=True)
    polled = [await root.call(following) for _ in range(4)]
    assert [one.messages_count for one in polled] == [5, 5, 2, 0]
    wrong = bytearray(encode_payload(following))
    wrong[-14] = 9
    assert await root.exchange(Code.POLL_MESSAGES, bytes(wrong)) == (3, b"")
    await root.call(DeletePartitions("s", "t", 2))
    with pytest.raises(PartitionNotFound):
        await root.call(following)


async def test_a_poll_of_a_group_is_never_prepared(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await with_topic(server)
    root = server.root()
    await root.call(CreateConsumerGroup("s", "t", "reader"))
    await root.call(JoinConsumerGroup("s", "t", "reader"))
    counted = resolving(monkeypatch)
    for _ in range(2):
        asked = poll_payload(0, kind=ConsumerKind.GROUP)
        assert (await root.exchange(Code.POLL_MESSAGES, asked))[0] == 0
    assert counted.call_count >= 2


# Sends of very many messages.


@pytest.fixture
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binary, "CHECKED_AT_ONCE_MAX", 20)


async def test_very_many_messages_are_checked_beside_the_loop(
    server: EmbeddedServer, few_at_once: None
) -> None:
    await with_topic(server)
    client = server.root()
    payload = send_payload(Partitioning.partition(0), 21)
    for _ in range(2):
        reply = server.binary.respond(
            client.session, Code.SEND_MESSAGES, Payload(memoryview(bytearray(payload)))
        )
        assert isinstance(reply, Future)
        await reply
    assert server.services.partitions.totals().messages_count == 42  # type: ignore[union-attr]
    assert server.dispatcher.waiting == 0


async def test_faults_of_very_many_messages_are_told_alike(
    server: EmbeddedServer, few_at_once: None
) -> None:
    await with_topic(server)
    damaged = bytearray(send_payload(Partitioning.partition(0), 21))
    damaged[-100] ^= 0xFF
    small = bytearray(send_payload(Partitioning.partition(0), 20))
    small[-100] ^= 0xFF
    root = server.root()
    status, _ = await root.exchange(Code.SEND_MESSAGES, bytes(damaged))
    assert status
    assert (status, b"") == await root.exchange(Code.SEND_MESSAGES, bytes(small))
    nowhere = bytes(send_payload(Partitioning.partition(9), 21))
    assert await root.exchange(Code.SEND_MESSAGES, nowhere) == (
        code_of(PartitionNotFound("")),
        b"",
    )


async def test_a_long_poll_without_files_is_not_joined() -> None:
    views = [memoryview(bytes(50_000)), memoryview(bytes(50_000))]
    reply = encoded(Delivery(0, 1, Reading(0, 2, tail=[*views])))
    assert isinstance(reply, RangesReply)
    assert reply.size == len(reply.head) + 100_000
    assert len(whole(reply)) == reply.size
