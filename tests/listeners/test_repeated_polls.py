"""Polls like the last one of their connection get the answers of any poll, with less work."""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.conversations import PING, Sink, root_talk
from tests.support.embedded import EmbeddedServer, embedded_server, whole
from tests.support.listening import count_closely, turns
from tests.support.sends import send_frame, send_of

from borzoi.listeners.binary import BinaryProtocol
from borzoi.listeners.repeated_polls import RepeatedPoll
from borzoi.listeners.shares import FRAMES_PER_TURN
from borzoi.memory.pool import MemoryPool
from borzoi.model.consuming import Consumer, ConsumerKind, PollingKind, PollingStrategy
from borzoi.model.errors import BorzoiError, PartitionNotFound, StorageFailure, StreamNotFound
from borzoi.model.identifiers import ROOT_USER_ID
from borzoi.model.namespace import Namespace
from borzoi.protocol.commands.groups import CreateConsumerGroup, JoinConsumerGroup
from borzoi.protocol.commands.messages import PollMessages
from borzoi.protocol.commands.offsets import StoreConsumerOffset
from borzoi.protocol.commands.segments import DeleteSegments
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic, DeleteTopic, PurgeTopic
from borzoi.protocol.commands.users import CreateUser, UpdatePermissions
from borzoi.protocol.errors import code_of
from borzoi.protocol.framing import encode_request
from borzoi.records.message import decode_messages
from borzoi.storage.log import SegmentedLog

PLACE = Namespace(0, 0, 0)
#: Bytes before the messages of an answer.
HEAD_BYTES = 24


def poll(
    offset: int,
    count: int = 1,
    *,
    kind: PollingKind = PollingKind.OFFSET,
    commits: bool = False,
    consumer: ConsumerKind = ConsumerKind.CONSUMER,
    wait_ms: int = 0,
    partition: int = 0,
) -> bytes:
    strategy = PollingStrategy(kind, offset)
    who = Consumer(consumer, 1)
    return encode_request(
        PollMessages(who, "s", "t", partition, strategy, count, commits, wait_ms=wait_ms)
    )


class Consuming:
    """A conversation, and how many of its requests were looked at closely."""

    def __init__(self, server: EmbeddedServer, number: int = 1) -> None:
        self.server = server
        self.sink = Sink()
        self.talk = root_talk(server, self.sink, MemoryPool.disabled(), number)
        server.services.sessions.add(self.talk.session)
        self.closely = 0

    def ask(self, *pieces: bytes) -> list[bytes]:
        """What is answered at once to bytes that arrive in these pieces."""
        before = len(self.sink.sent)
        for piece in pieces:
            self.talk.feed(memoryview(bytearray(piece)))
        return [whole(reply) for reply in self.sink.sent[before:]]

    def payloads(self, *pieces: bytes) -> list[bytes]:
        """The payloads of the messages in one answer."""
        (answer,) = self.ask(*pieces)
        assert answer[:4] == bytes(4)
        return [bytes(message.payload) for message in decode_messages(answer[HEAD_BYTES:])]


@pytest.fixture
def consuming(
    server: EmbeddedServer, topic: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Consuming]:
    """A consumer of ten messages."""
    found = Consuming(server)
    found.ask(send_frame(*(b"%d" % number for number in range(10))))
    count_closely(found, monkeypatch)
    yield found
    found.talk.lost()


async def test_only_the_first_poll_is_looked_at_closely(consuming: Consuming) -> None:
    times = consuming.server.binary.dispatcher.times.of("poll_messages", "tcp")
    measured = times.count
    for offset in (*range(10), 9, 9, 3, 4, 5, 0, 0):
        assert consuming.payloads(poll(offset)) == [b"%d" % offset]
    for offset in (10, 11, 1 << 63, 10):
        assert consuming.payloads(poll(offset)) == []
    for _ in range(20):
        consuming.ask(poll(10))
    assert consuming.closely == 1
    assert times.count - measured == 32
    consuming.ask(send_frame(b"10"))
    assert consuming.payloads(poll(10)) == [b"10"]
    assert consuming.payloads(poll(11)) == []
    assert consuming.closely == 2, "the first poll and the send"


async def test_messages_are_read_from_the_file_once(
    consuming: Consuming, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []
    read = SegmentedLog.read

    def noted(log: SegmentedLog, offset: int, *rest: Any) -> Any:
        reads.append(offset)
        return read(log, offset, *rest)

    monkeypatch.setattr(SegmentedLog, "read", noted)
    others = [Consuming(consuming.server, number) for number in (2, 3)]
    for step in range(4):
        # In places of their own, so that no two read the same.
        for place, consumer in enumerate((consuming, *others)):
            offset = 3 * place + min(step, 2)
            assert consumer.payloads(poll(offset)) == [b"%d" % offset]
    assert reads == [0, 3, 6, 1, 4, 7], "the next ones were in memory, the last one twice"
    reads.clear()
    assert consuming.payloads(poll(9)) == [b"9"]
    assert consuming.payloads(poll(9)) == [b"9"]
    assert consuming.payloads(poll(9)) == [b"9"]
    assert reads == []
    for other in others:
        other.talk.lost()


async def test_few_and_many_messages_are_delivered_whole(consuming: Consuming) -> None:
    consuming.ask(send_frame(*[b"x" * 3000] * 40))
    expected = [b"%d" % number for number in range(10)] + [b"x" * 3000] * 40
    for count in (7, 1, 2, 0, 50, 33):
        for offset in (*range(0, 50, 3), 48, 49):
            assert consuming.payloads(poll(offset, count)) == expected[offset : offset + count]


async def test_what_depends_on_more_than_the_log_is_looked_at(consuming: Consuming) -> None:
    root = consuming.server.root()
    await root.call(CreateConsumerGroup("s", "t", "g"))
    consuming.ask(encode_request(JoinConsumerGroup("s", "t", 1)))
    await turns(5)
    for frame in (
        poll(0, kind=PollingKind.NEXT),
        poll(0, kind=PollingKind.FIRST),
        poll(0, kind=PollingKind.LAST),
        poll(0, kind=PollingKind.TIMESTAMP),
        poll(0, commits=True),
        poll(0, consumer=ConsumerKind.GROUP),
        poll(0, wait_ms=1),
    ):
        consuming.closely = 0
        for _ in range(3):
            consuming.ask(frame)
            await turns(5)
        assert consuming.closely == 3
        assert consuming.talk.repeated is None


async def test_another_partition_count_or_consumer_is_looked_at(consuming: Consuming) -> None:
    consuming.ask(poll(0))
    for frame in (poll(0, 2), poll(0, commits=True), poll(0, kind=PollingKind.FIRST)):
        consuming.closely = 0
        before = consuming.ask(poll(0))
        consuming.ask(frame)
        assert consuming.closely == 1
        assert consuming.ask(poll(0)) == before
    missing = consuming.ask(poll(0, partition=1))
    assert missing[0][:4] == code_of(PartitionNotFound("")).to_bytes(4, "little")


async def test_one_request_may_come_in_between(consuming: Consuming) -> None:
    commit = encode_request(StoreConsumerOffset(Consumer(ConsumerKind.CONSUMER, 1), "s", "t", 0, 3))
    consuming.ask(poll(0))
    consuming.closely = 0
    for offset in range(5):
        consuming.ask(commit if offset % 2 else PING)
        await turns(5)
        assert consuming.payloads(poll(offset)) == [b"%d" % offset]
    assert consuming.closely == 5, "only those in between"
    consuming.ask(PING)
    consuming.ask(PING)
    assert consuming.talk.repeated is None
    consuming.ask(poll(0))
    assert consuming.closely == 8


async def test_bytes_in_any_pieces_keep_their_order(consuming: Consuming) -> None:
    frames = [poll(offset) for offset in range(10)]
    expected = [consuming.ask(frame)[0] for frame in frames]
    data = b"".join(frames)
    size = len(frames[0])
    assert consuming.ask(data) == expected
    for cut in (1, 4, 8, 9, size - 1, size, size + 3, 2 * size, 3 * size - 5):
        assert consuming.ask(*[data[at : at + cut] for at in range(0, len(data), cut)]) == expected
    # After as many frames as it may have in one turn, the rest waits, and what comes behind too.
    long = frames * (FRAMES_PER_TURN // 5)
    before = len(consuming.sink.sent)
    consuming.ask(b"".join(long), frames[3])
    assert len(consuming.sink.sent) - before < len(long)
    await turns(10)
    answers = [whole(reply) for reply in consuming.sink.sent[before:]]
    assert answers == [*expected * (FRAMES_PER_TURN // 5), expected[3]]


async def test_bytes_of_a_large_frame_are_no_polls(consuming: Consuming) -> None:
    binary, frame = consuming.server.binary, poll(1)
    refused = encode_request(send_of(b"x" * 200_000, stream="missing"))
    waiting = send_frame(b"x" * 200_000)
    for large in (refused, waiting):
        consuming.ask(poll(0))
        assert binary.unfinished.enter(binary.unfinished.limit)
        assert consuming.ask(large[:5000]) == []
        assert consuming.ask(frame) == []
        assert consuming.talk.repeated is None
        binary.unfinished.leave(binary.unfinished.limit)
        await turns(3)
        (answer,) = consuming.ask(large[5000 + len(frame) :])
        assert (answer == bytes(8)) == (large is not refused)
    assert consuming.payloads(poll(9, 2))[0] == b"9"


async def test_the_bytes_of_an_answer_are_bounded(tmp_path: Path) -> None:
    chosen = {"SYSTEM_PARTITION_MAX_POLL_SIZE": "150 B"}
    async with embedded_server(tmp_path, chosen) as server:
        await server.root().call(CreateStream("s"))
        await server.root().call(CreateTopic("s", "t", 1))
        consuming = Consuming(server)
        consuming.ask(send_frame(b"a", b"b", b"c" * 100, b"d"))
        for _ in range(4):
            assert consuming.payloads(poll(0, 3)) == [b"a", b"b"]
            assert consuming.payloads(poll(1, 3)) == [b"b"]
            assert consuming.payloads(poll(2, 3)) == [b"c" * 100]
        consuming.talk.lost()


async def test_nothing_is_answered_while_the_output_is_blocked(consuming: Consuming) -> None:
    consuming.ask(poll(0))
    consuming.talk.blocked = True
    assert consuming.ask(poll(1)) == []
    consuming.talk.unblocked()
    assert whole(consuming.sink.sent[-1])[HEAD_BYTES:] == consuming.ask(poll(1))[0][HEAD_BYTES:]


@pytest.mark.parametrize("change", ["user", "stale", "metadata", "gone", "ended"])
async def test_a_poll_is_looked_at_when_something_changed(
    consuming: Consuming, change: str
) -> None:
    consuming.ask(poll(0))
    consuming.ask(poll(0))
    table = consuming.server.services.partitions._table
    session = consuming.talk.session
    status: type[BorzoiError] | None = None
    if change == "user":
        session.user_id = None
    elif change == "stale":
        session.stale = True
    elif change == "metadata":
        await consuming.server.root().call(CreateStream("other"))
    elif change == "gone":
        table.discard(PLACE)
        status = PartitionNotFound
    else:
        consuming.talk.end()
        assert consuming.talk.repeated is None
        assert consuming.ask(poll(0)) == []
        return
    consuming.closely = 0
    (answer,) = consuming.ask(poll(0))
    assert consuming.closely == 1
    if status is not None:
        assert answer == code_of(status("")).to_bytes(8, "little")
    else:
        assert (answer[:4] == bytes(4)) == (change != "user")


async def test_a_permission_that_was_taken_away_holds_for_the_next_poll(
    consuming: Consuming,
) -> None:
    root = consuming.server.root()
    made = await root.call(CreateUser("reader", "secret"))
    consuming.talk.session.user_id = made.id
    refused = consuming.ask(poll(0))
    assert refused[0][:4] != bytes(4)
    consuming.talk.session.user_id = ROOT_USER_ID
    consuming.ask(poll(0))
    assert isinstance(consuming.talk.repeated, RepeatedPoll)
    consuming.talk.session.user_id = made.id
    assert consuming.ask(poll(0)) == refused
    await root.call(UpdatePermissions("reader", None))
    assert consuming.ask(poll(0)) == refused


async def test_purged_and_deleted_messages_are_gone_at_once(consuming: Consuming) -> None:
    root = consuming.server.root()
    for _ in range(3):
        consuming.ask(poll(0, 2))
    await root.call(PurgeTopic("s", "t"))
    assert consuming.payloads(poll(0, 2)) == []
    assert consuming.payloads(poll(0, 2)) == []
    consuming.ask(send_frame(b"new", b"newer"))
    for _ in range(3):
        assert consuming.payloads(poll(0, 2)) == [b"new", b"newer"]
    # Also by a log that is emptied where it is, while the metadata stays as it was.
    partition = consuming.server.services.partitions._table.find(PLACE)
    partition.purge()
    assert consuming.payloads(poll(0, 2)) == []
    consuming.ask(send_frame(b"one", b"two"))
    assert consuming.payloads(poll(0, 2)) == [b"one", b"two"]
    assert consuming.payloads(poll(0, 2)) == [b"one", b"two"]
    partition.purge()
    consuming.ask(send_frame(b"six", b"ten"))
    await turns(2)
    assert consuming.payloads(poll(0, 2)) == [b"six", b"ten"], "not those in memory"
    await root.call(DeleteTopic("s", "t"))
    (answer,) = consuming.ask(poll(0, 2))
    assert answer[:4] != bytes(4)


async def test_a_poll_that_fails_is_answered_with_its_status(
    consuming: Consuming, monkeypatch: pytest.MonkeyPatch
) -> None:
    consuming.ask(poll(0))

    def fail(*_: object) -> None:
        raise StorageFailure("the disk is gone")

    monkeypatch.setattr(SegmentedLog, "read", fail)
    for offset in (3, 100, 100):
        (answer,) = consuming.ask(poll(offset))
        assert answer == code_of(StorageFailure("")).to_bytes(8, "little")
    monkeypatch.undo()
    assert consuming.payloads(poll(3)) == [b"3"]
    assert consuming.payloads(poll(100)) == []


async def test_encrypted_and_unwritten_messages_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at = []
    respond = BinaryProtocol.respond

    def noted(*arguments: Any) -> Any:
        looked_at.append(arguments)
        return respond(*arguments)

    monkeypatch.setattr(BinaryProtocol, "respond", noted)
    key = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
    encrypted = {"SYSTEM_ENCRYPTION_ENABLED": "true", "SYSTEM_ENCRYPTION_KEY": key}
    buffered = {
        "SYSTEM_PARTITION_ACKNOWLEDGE": "buffered",
        "SYSTEM_PARTITION_MESSAGES_REQUIRED_TO_SAVE": "1000",
    }
    for number, chosen in enumerate((encrypted, buffered)):
        async with embedded_server(tmp_path / str(number), chosen) as server:
            root = server.root()
            await root.call(CreateStream("s"))
            await root.call(CreateTopic("s", "t", 1))
            consuming = Consuming(server)
            consuming.ask(send_frame(b"first", b"second"))
            for offset in (0, 0, 1, 1, 0):
                looked_at.clear()
                assert consuming.payloads(poll(offset)) == [b"first", b"second"][offset:][:1]
                assert len(looked_at) == 1
            consuming.talk.lost()


async def test_a_stream_that_is_not_there_is_not_expected_again(consuming: Consuming) -> None:
    await consuming.server.root().call(DeleteTopic("s", "t"))
    (answer,) = consuming.ask(poll(0))
    assert answer[:4] != code_of(StreamNotFound("")).to_bytes(4, "little")
    assert consuming.talk.repeated is None


# The same answers, whatever happens. --------------------------------------------------------------

polls = st.builds(
    poll,
    st.integers(0, 40),
    st.sampled_from([1, 1, 1, 2, 5, 30]),
    kind=st.sampled_from([PollingKind.OFFSET] * 6 + [PollingKind.FIRST, PollingKind.LAST]),
)
steps = st.lists(
    st.one_of(
        polls.map(lambda frame: ("ask", [frame])),
        st.integers(1, 4).map(lambda times: ("on", times)),
        st.integers(1, 4).map(lambda times: ("again", times)),
        st.lists(polls, min_size=1, max_size=4).map(lambda frames: ("ask", [b"".join(frames)])),
        st.tuples(polls, st.integers(1, 40)).map(lambda cut: ("ask", [*halves(*cut)])),
        st.lists(st.integers(0, 2500), min_size=1, max_size=9).map(lambda sizes: ("send", sizes)),
        st.sampled_from([("ping", 0), ("purge", 0), ("delete", 1), ("empty", 0), ("change", 0)]),
    ),
    min_size=4,
    max_size=40,
)


def halves(frame: bytes, cut: int) -> tuple[bytes, bytes]:
    return frame[:cut], frame[cut:]


class Compared:
    """Two consumers that ask the same; one of them is always looked at closely."""

    def __init__(self, server: EmbeddedServer) -> None:
        self.server = server
        self.root = server.root()
        self.one, self.other = Consuming(server, 1), Consuming(server, 2)
        self.offset = 0
        self.numbers = iter(range(1000))

    def ask(self, *pieces: bytes) -> None:
        found = self.one.ask(*pieces)
        expected = []
        for piece in pieces:
            self.other.talk.repeated = None
            expected += self.other.ask(piece)
        assert found == expected

    async def take(self, step: str, what: Any) -> None:
        match step:
            case "ask":
                self.ask(*what)
            case "on" | "again":
                for _ in range(what):
                    self.ask(poll(self.offset))
                    self.offset += step == "on"
            case "send":
                await self.root.call(send_of(*(bytes([size % 256]) * size for size in what)))
            case "ping":
                self.ask(PING)
            case "purge":
                await self.root.call(PurgeTopic("s", "t"))
                self.offset = 0
            case "delete":
                await self.root.call(DeleteSegments("s", "t", 0, what))
            case "empty":
                self.server.services.partitions._table.find(PLACE).purge()
                self.offset = 0
            case _:
                await self.root.call(CreateStream(f"another {next(self.numbers)}"))


@given(steps=steps)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_answers_are_those_of_polls_that_are_looked_at(steps: list[tuple[str, Any]]) -> None:
    async def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            chosen = {"SYSTEM_SEGMENT_SIZE": "4 KiB"}
            async with embedded_server(Path(folder) / "data", chosen) as server:
                compared = Compared(server)
                await compared.root.call(CreateStream("s"))
                await compared.root.call(CreateTopic("s", "t", 1))
                for step, what in steps:
                    await compared.take(step, what)
                for consumer in (compared.one, compared.other):
                    consumer.talk.lost()

    asyncio.run(run())
