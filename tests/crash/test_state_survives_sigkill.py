"""What was answered before SIGKILL is there after the next start: metadata and consumer offsets."""

import random
import threading

import pytest
from tests.support.sends import send_of
from tests.support.server import RunningServer, running_server
from tests.support.wire_client import WireClient

from borzoi.model.consuming import Consumer, ConsumerKind
from borzoi.model.errors import Disconnected
from borzoi.model.topics import Compression
from borzoi.protocol.commands.offsets import GetConsumerOffset, StoreConsumerOffset
from borzoi.protocol.commands.streams import CreateStream, DeleteStream, GetStreams
from borzoi.protocol.commands.topics import CreateTopic
from borzoi.storage.local import LocalMedium
from borzoi.tools.findings import Finding, Severity
from borzoi.tools.inspection import verify

pytestmark = pytest.mark.crash

MESSAGES = 1000
CONSUMERS = 5
#: A shard that outlives another one for a moment says that it lost it; the request may be executed.
GONE = (ConnectionError, OSError, Disconnected)


class Answers:
    """What the server acknowledged, and the last request."""

    def __init__(self) -> None:
        self.streams: set[str] = {"orders"}
        self.asked_streams: set[str] = {"orders"}
        self.offsets: dict[int, int] = {}
        self.asked_offsets: dict[int, int] = {}


def prepared(server: RunningServer) -> None:
    with WireClient(server.tcp_address) as client:
        client.login()
        client.call(CreateStream("orders"))
        client.call(
            CreateTopic(
                stream_id="orders",
                name="incoming",
                partitions_count=1,
                compression=Compression.NONE,
                message_expiry=0,
                max_topic_size=0,
                replication_factor=1,
            )
        )
        payloads = [b"%d" % number for number in range(MESSAGES)]
        client.call(send_of(*payloads, stream="orders", topic="incoming"))


def change_streams(
    server: RunningServer, run: int, answers: Answers, began: threading.Event
) -> None:
    draws = random.Random(run)
    try:
        with WireClient(server.tcp_address) as client:
            client.login()
            for number in range(10**6):
                name = f"stream-{run}-{number}"
                answers.asked_streams.add(name)
                client.call(CreateStream(name))
                answers.streams.add(name)
                began.set()
                if draws.random() < 0.7:
                    answers.streams.discard(name)
                    client.call(DeleteStream(name))
                    answers.asked_streams.discard(name)
    except GONE:
        return


def commit_offsets(
    server: RunningServer, run: int, answers: Answers, began: threading.Event
) -> None:
    try:
        with WireClient(server.tcp_address) as client:
            client.login()
            for number in range(10**6):
                consumer_id = number % CONSUMERS
                offset = (number * 7 + run) % MESSAGES
                answers.asked_offsets[consumer_id] = offset
                consumer = Consumer(ConsumerKind.CONSUMER, consumer_id)
                client.call(StoreConsumerOffset(consumer, "orders", "incoming", 0, offset))
                answers.offsets[consumer_id] = offset
                if consumer_id == CONSUMERS - 1:
                    began.set()
    except GONE:
        return


def check(server: RunningServer, answers: Answers) -> None:
    with WireClient(server.tcp_address) as client:
        client.login()
        names = {stream.name for stream in client.call(GetStreams()).streams}
        assert answers.streams <= names <= answers.asked_streams
        answers.streams, answers.asked_streams = set(names), set(names)
        for consumer_id in range(CONSUMERS):
            consumer = Consumer(ConsumerKind.CONSUMER, consumer_id)
            stored = client.call(GetConsumerOffset(consumer, "orders", "incoming", 0))
            found = None if stored is None else stored.stored_offset
            expected = answers.offsets.get(consumer_id)
            assert found in (expected, answers.asked_offsets.get(consumer_id))
            if found is not None:
                answers.offsets[consumer_id] = answers.asked_offsets[consumer_id] = found


@pytest.mark.parametrize("settings", [{}, {"SYSTEM_STATE_ENFORCE_FSYNC": "true"}])
def test_nothing_that_was_answered_is_lost_when_the_server_is_killed(settings):
    answers = Answers()
    with running_server(settings) as server:
        prepared(server)
        for run in range(3):
            began = threading.Event(), threading.Event()
            work = [
                threading.Thread(target=change, args=(server, run, answers, event))
                for change, event in zip((change_streams, commit_offsets), began, strict=True)
            ]
            for thread in work:
                thread.start()
            for event in began:
                assert event.wait(60)
            # From here until it is killed the server works at full speed; how long is no matter.
            work[0].join(0.1 + 0.1 * run)
            server.kill()
            for thread in work:
                thread.join()
            found = [f for f in verify(LocalMedium(), server.directory) if isinstance(f, Finding)]
            assert [f for f in found if f.severity is Severity.DAMAGE] == []
            server.start()
            check(server, answers)
        assert server.stop() == 0
    assert len(answers.offsets) == CONSUMERS
