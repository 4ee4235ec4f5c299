"""Small sends of one turn are stored together; only the number of appends shows it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.accelerators import needs_accelerator
from tests.support.conversations import Sink, answered
from tests.support.embedded import EmbeddedServer, embedded_server
from tests.support.listening import count_closely, turns
from tests.support.sends import FIRST_PARTITION, send_of

from borzoi.handlers.sessions import Session
from borzoi.listeners.connection import Conversation
from borzoi.listeners.gathering import ALONE_MAX, GATHERED_BYTES_MAX, TURN_BYTES_MAX
from borzoi.memory.pool import MemoryPool
from borzoi.model.errors import PartitionNotFound, StorageFailure
from borzoi.model.identifiers import ROOT_USER_ID
from borzoi.model.namespace import Namespace
from borzoi.model.partitioning import Partitioning
from borzoi.model.system import TransportKind
from borzoi.partitions.partition import Partition
from borzoi.protocol.commands.messages import SendMessages
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.system import Ping
from borzoi.protocol.commands.topics import CreateTopic, DeleteTopic
from borzoi.protocol.errors import code_of
from borzoi.protocol.framing import encode_request
from borzoi.records.batch import Batch
from borzoi.records.message import Message, decode_messages, encode_messages
from borzoi.storage.reading import Reading

PLACE = Namespace(0, 0, 0)


def send(*payloads: bytes, partitioning: Partitioning = FIRST_PARTITION) -> bytes:
    return encode_request(send_of(*payloads, stream=0, topic=0, partitioning=partitioning))


class Clients:
    """Connections of one server, and how many appends their sends became."""

    def __init__(self, server: EmbeddedServer, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server = server
        self.pool = MemoryPool(64 << 20)
        self.sinks = [Sink() for _ in range(count)]
        self.talks = []
        for number, sink in enumerate(self.sinks, 2):
            session = Session(
                number,
                f"127.0.0.1:{number}",
                TransportKind.TCP,
                lambda: None,
                0.0,
                user_id=ROOT_USER_ID,
            )
            server.services.sessions.add(session)
            self.talks.append(Conversation(session, server.binary, sink, self.pool))
        self.appends = self.closely = 0
        append = Partition.append

        def counted(partition: Partition, batch: Batch, now: int) -> Any:
            self.appends += 1
            return append(partition, batch, now)

        monkeypatch.setattr(Partition, "append", counted)

    @property
    def answers(self) -> list[int]:
        """How many each client has."""
        return [len(sink.sent) for sink in self.sinks]

    async def get_company(self) -> None:
        """Send together, so that the next turn gathers from its first send on."""
        for talk in self.talks:
            talk.feed(memoryview(send(b"before")))
        await turns(3)
        assert set(self.answers) == {1}
        self.appends = 0
        for sink in self.sinks:
            sink.sent.clear()

    def stored(self) -> list[bytes]:
        reading = self.server.services.partitions._table.find(PLACE).log.read(0, 10_000)
        assert isinstance(reading, Reading)
        found = reading.materialise()
        return [bytes(message.payload) for message in decode_messages(memoryview(found))]


@pytest.fixture
async def running(server: EmbeddedServer) -> EmbeddedServer:
    root = server.root()
    await root.call(CreateStream("s"))
    await root.call(CreateTopic(0, "t", 3))
    return server


@pytest.fixture
def clients(running: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> Clients:
    return Clients(running, 6, monkeypatch)


async def test_the_first_of_a_turn_is_answered_at_once_and_the_others_together(
    clients: Clients,
) -> None:
    await clients.server.root().call(SendMessages(0, 0, Partitioning.partition(0), *one_message()))
    for number, talk in enumerate(clients.talks):
        talk.feed(memoryview(send(b"%d" % number)))
        talk.feed(memoryview(send(b"%d again" % number)))
    # No send with these constant bytes came before, so the first ones are prepared one by one.
    await turns(5)
    assert clients.answers == [2] * 6
    clients.appends = 0
    for number, talk in enumerate(clients.talks):
        talk.feed(memoryview(send(b"%d, %d" % (number, 1), b"%d, %d" % (number, 2))))
    assert set(clients.answers) == {2}
    await turns(2)
    assert clients.answers == [3] * 6
    assert clients.appends == 1
    assert clients.stored()[-12:] == [
        b"%d, %d" % (number, each) for number in range(6) for each in (1, 2)
    ]
    assert all(set(sink.statuses) == {0} for sink in clients.sinks)


def one_message() -> tuple[int, memoryview, memoryview]:
    indexes, messages = encode_messages([Message(b"first")])
    return 1, memoryview(indexes), memoryview(messages)


async def test_who_is_alone_does_not_wait(clients: Clients) -> None:
    for number in range(3 * ALONE_MAX):
        clients.talks[0].feed(memoryview(send(b"alone")))
        assert clients.answers[0] == number + 1
        await turns(1)
    assert clients.appends == 3 * ALONE_MAX
    # Company is found again, if not at once.
    for _ in range(2 * ALONE_MAX):
        for talk in clients.talks:
            talk.feed(memoryview(send(b"together")))
        await turns(2)
    assert clients.appends < 3 * ALONE_MAX + 2 * ALONE_MAX * 6


async def test_what_one_client_sends_ahead_keeps_its_order(clients: Clients) -> None:
    await clients.get_company()
    for talk in clients.talks:
        talk.feed(memoryview(b"".join(send(b"%d" % number) for number in range(20))))
    for sink in clients.sinks:
        await answered(sink, 20)
    stored = clients.stored()[-120:]
    assert sorted(stored) == sorted(b"%d" % number for number in range(20) for _ in range(6))
    assert [stored.index(b"%d" % number) for number in range(20)] == sorted(
        stored.index(b"%d" % number) for number in range(20)
    )


async def test_a_faulty_batch_is_refused_alone(clients: Clients) -> None:
    await clients.get_company()
    damaged = bytearray(send(b"good"))
    damaged[-9] = 1  # the reserved field
    for number, talk in enumerate(clients.talks):
        talk.feed(memoryview(damaged if number == 2 else send(b"good")))
    assert clients.answers == [0, 0, 1, 0, 0, 0]
    await turns(2)
    assert [sink.statuses[0] != 0 for sink in clients.sinks].index(True) == 2
    assert clients.stored()[-5:] == [b"good"] * 5
    assert clients.appends == 1


async def test_each_partition_gets_its_own(clients: Clients) -> None:
    await clients.get_company()
    for _ in range(2):
        for talk in clients.talks:
            talk.feed(memoryview(send(b"balanced", partitioning=Partitioning.balanced())))
        await turns(2)
    clients.appends = 0
    for talk in clients.talks:
        talk.feed(memoryview(send(b"balanced", partitioning=Partitioning.balanced())))
    await turns(2)
    assert clients.appends == 3


@pytest.mark.parametrize("fault", [StorageFailure, RuntimeError])
async def test_an_append_that_fails_has_failed_for_all(
    clients: Clients, fault: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    await clients.get_company()

    def fail(*_: object) -> None:
        # One of the parameters would keep its traceback, and with it every conversation.
        raise fault("the disk is gone")

    monkeypatch.setattr(Partition, "append", fail)
    for talk in clients.talks:
        talk.feed(memoryview(send(b"lost")))
    await turns(2)
    statuses = [sink.statuses for sink in clients.sinks]
    assert all(one == statuses[0] != [0] for one in statuses)


async def test_a_partition_that_went_away_meanwhile_refuses(clients: Clients) -> None:
    await clients.get_company()
    for talk in clients.talks:
        talk.feed(memoryview(send(b"lost")))
    clients.server.services.partitions._table.discard(PLACE)
    await turns(2)
    expected = code_of(PartitionNotFound("gone"))
    assert [sink.statuses for sink in clients.sinks] == [[expected]] * 6


async def test_who_goes_away_leaves_its_messages_and_no_memory(clients: Clients) -> None:
    await clients.get_company()
    frame = memoryview(send(b"x" * 2000))
    for talk in clients.talks:
        talk.feed(frame[:500])
        talk.feed(frame[500:])
    clients.talks[0].lost()
    clients.talks[1].hang_up()
    await turns(2)
    assert clients.answers == [0, 1, 1, 1, 1, 1]
    assert clients.stored()[-6:] == [b"x" * 2000] * 6
    assert clients.sinks[1].finished
    assert clients.pool.counters().in_use_bytes == 0


async def test_who_closes_its_side_is_answered_first(clients: Clients) -> None:
    await clients.get_company()
    clients.talks[0].feed(memoryview(send(b"last") + send(b"very last")))
    assert clients.talks[0].input_ended()
    await answered(clients.sinks[0], 2)
    await turns(2)
    assert clients.sinks[0].finished


async def test_large_batches_and_full_turns_do_not_gather(clients: Clients) -> None:
    await clients.get_company()
    clients.talks[1].feed(memoryview(send(b"small")))
    clients.talks[0].feed(memoryview(send(bytes(GATHERED_BYTES_MAX))))
    assert clients.answers[:2] == [1, 1]
    assert [len(payload) for payload in clients.stored()[-2:]] == [5, GATHERED_BYTES_MAX]
    gathering = clients.server.binary.gathering
    clients.talks[3].feed(memoryview(send(b"gathered")))
    assert clients.answers[3] == 0
    gathering._bytes = TURN_BYTES_MAX + 1
    clients.talks[2].feed(memoryview(send(b"at once")))
    assert clients.answers[2] == 1
    await turns(2)


# Sends like the last one of their connection. -----------------------------------------------------


@pytest.fixture
async def repeating(clients: Clients, monkeypatch: pytest.MonkeyPatch) -> Clients:
    """Clients whose next send may repeat their last one; `closely` counts what is looked at."""
    for _ in range(3):
        await clients.get_company()
    clients.closely = 0
    count_closely(clients, monkeypatch)
    return clients


@needs_accelerator
async def test_a_repeated_send_is_joined_without_a_closer_look(repeating: Clients) -> None:
    before = len(repeating.stored())
    times = repeating.server.binary.dispatcher.times.of("send_messages", "tcp")
    measured = times.count
    for turn in range(16):
        for number, talk in enumerate(repeating.talks):
            payloads = [b"%d, %d" % (turn, number)] * (1 + turn % 9)
            talk.feed(memoryview(send(*payloads)))
        await turns(2)
    assert repeating.closely == 0
    assert repeating.appends == 16
    assert repeating.answers == [16] * 6
    assert repeating.stored()[before:] == [
        b"%d, %d" % (turn, number)
        for turn in range(16)
        for number in range(6)
        for _ in range(1 + turn % 9)
    ]
    assert times.count - measured == 16 * 6


@needs_accelerator
@pytest.mark.parametrize("change", ["user", "stale", "metadata"])
async def test_a_repeated_send_is_looked_at_when_something_changed(
    repeating: Clients, change: str
) -> None:
    talk, sink = repeating.talks[0], repeating.sinks[0]
    if change == "user":
        talk.session.user_id = None
    elif change == "stale":
        talk.session.stale = True
    else:
        await repeating.server.root().call(DeleteTopic(0, 0))
    repeating.closely = 0
    talk.feed(memoryview(send(b"again")))
    await turns(2)
    assert repeating.closely == 1
    assert (sink.statuses[0] == 0) == (change == "stale")


@needs_accelerator
async def test_what_is_no_repeated_send_is_looked_at(repeating: Clients) -> None:
    frame = send(b"whole")
    damaged = bytearray(frame)
    damaged[-10] = 1  # the reserved field
    elsewhere = send(b"whole", partitioning=Partitioning.partition(1))
    too_large = send(bytes(GATHERED_BYTES_MAX))
    pings = encode_request(Ping())
    for data in (bytes(damaged), elsewhere, too_large, pings, frame + frame):
        repeating.closely = 0
        for talk in repeating.talks:
            talk.feed(memoryview(frame))
        await turns(2)
        assert repeating.closely == 0
        repeating.talks[0].feed(memoryview(data))
        assert repeating.closely == 1
        await turns(3)
        for _ in range(3):  # until all have company again
            for talk in repeating.talks:
                talk.feed(memoryview(frame))
            await turns(2)
    assert repeating.sinks[0].statuses.count(0) == len(repeating.sinks[0].statuses) - 1


@needs_accelerator
async def test_no_repeated_send_begins_while_another_request_runs(repeating: Clients) -> None:
    first, second = repeating.talks[:2]
    first.feed(memoryview(send(b"first")))
    first.feed(memoryview(send(b"second")))
    second.blocked = True
    second.feed(memoryview(send(b"kept")))
    assert repeating.answers[:2] == [0, 0]
    await turns(4)
    assert repeating.answers[:2] == [2, 0]
    second.unblocked()
    await turns(3)
    assert repeating.answers[:2] == [2, 1]
    assert repeating.stored()[-3:] == [b"first", b"second", b"kept"]


@needs_accelerator
async def test_repeated_sends_fill_a_turn_and_follow_what_is_stored_at_once(
    repeating: Clients,
) -> None:
    gathering = repeating.server.binary.gathering
    repeating.talks[0].feed(memoryview(send(b"gathered")))
    repeating.talks[1].feed(memoryview(send(bytes(GATHERED_BYTES_MAX))))
    assert repeating.answers[:2] == [1, 1]
    repeating.talks[2].feed(memoryview(send(b"behind")))
    assert repeating.answers[2] == 0
    gathering._bytes = TURN_BYTES_MAX + 1
    repeating.talks[3].feed(memoryview(send(b"at once")))
    assert repeating.answers[2:4] == [1, 1]
    assert repeating.stored()[-2:] == [b"behind", b"at once"]
    await turns(2)


@needs_accelerator
async def test_who_ends_or_is_alone_repeats_nothing(repeating: Clients) -> None:
    repeating.talks[0].hang_up()
    assert repeating.talks[0].repeated is None
    repeating.talks[1].lost()
    assert repeating.talks[1].repeated is None
    for talk in repeating.talks[2:]:
        talk.feed(memoryview(send(b"together")))
    await turns(2)
    repeating.talks[2].feed(memoryview(send(b"with company before")))
    await turns(2)
    assert repeating.closely == 0
    repeating.talks[2].feed(memoryview(send(b"alone")))
    assert repeating.closely == 1
    assert repeating.answers[2] == 3


@needs_accelerator
async def test_a_partition_that_is_not_here_any_more_is_looked_for(repeating: Clients) -> None:
    repeating.server.services.partitions._table.discard(PLACE)
    repeating.talks[0].feed(memoryview(send(b"lost")))
    await turns(2)
    assert repeating.sinks[0].statuses == [code_of(PartitionNotFound("gone"))]


@pytest.fixture
async def synced(tmp_path: Path) -> AsyncIterator[EmbeddedServer]:
    settings = {"SYSTEM_PARTITION_ACKNOWLEDGE": "synced"}
    async with embedded_server(tmp_path / "synced", settings) as server:
        root = server.root()
        await root.call(CreateStream("s"))
        await root.call(CreateTopic(0, "t", 1))
        yield server


async def test_under_synced_all_wait_for_one_sync(
    synced: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients = Clients(synced, 6, monkeypatch)
    for _ in range(3):
        for sink, talk in zip(clients.sinks, clients.talks, strict=True):
            sink.sent.clear()
            talk.feed(memoryview(send(b"synced")))
        assert clients.answers == [0] * 6
        for sink in clients.sinks:
            await answered(sink, 1)
    assert clients.stored() == [b"synced"] * 18
    assert clients.appends < 18
    monkeypatch.setattr(Partition, "append", lambda *_: failed_later())
    for talk in clients.talks:
        talk.feed(memoryview(send(b"lost")))
    for sink in clients.sinks:
        await answered(sink, 2)
    assert all(sink.statuses[1] for sink in clients.sinks)


@pytest.mark.parametrize("is_stale", [False, True])
async def test_the_receive_buffer_may_be_used_again_at_once(
    synced: EmbeddedServer, monkeypatch: pytest.MonkeyPatch, is_stale: bool
) -> None:
    """Also by the sends of a stale session, which are not prepared."""
    clients = Clients(synced, 6, monkeypatch)
    buffer = memoryview(bytearray(1024))
    for number in range(4):
        for talk, sink in zip(clients.talks, clients.sinks, strict=True):
            talk.session.stale = is_stale and number > 1
            sink.sent.clear()
            frame = send(b"turn %d" % number)
            buffer[: len(frame)] = frame
            talk.received(buffer[: len(frame)])
            buffer[:] = bytes(len(buffer))
        for sink in clients.sinks:
            await answered(sink, 1)
            assert sink.statuses == [0]
    assert clients.stored() == [b"turn %d" % (number // 6) for number in range(24)]


def failed_later() -> "asyncio.Future[None]":
    failed = asyncio.get_running_loop().create_future()
    failed.set_exception(StorageFailure("the disk is gone"))
    return failed


async def test_without_an_answer_the_connection_ends(
    clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    await clients.get_company()

    def cancelled(*_: object) -> "asyncio.Future[None]":
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        return future

    monkeypatch.setattr(Partition, "append", cancelled)
    for talk in clients.talks:
        talk.feed(memoryview(send(b"lost")))
    await turns(4)
    assert clients.answers == [0] * 6
    assert all(sink.finished for sink in clients.sinks)
