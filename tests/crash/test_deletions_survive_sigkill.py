"""What was deleted or purged stays so, although the next topic gets the same number and folder.

`BORZOI_CRASH_CYCLES` says how often the server is killed, `BORZOI_CRASH_SEED` repeats the moments.
"""

import os
import threading
from dataclasses import dataclass, field
from itertools import count
from random import Random

import pytest
from tests.support.polls import poll_of
from tests.support.sends import send_of
from tests.support.server import RunningServer, running_server
from tests.support.wire_client import PATIENCE_SECONDS, WireClient

from borzoi.model.errors import Disconnected
from borzoi.protocol.commands import topics
from borzoi.protocol.commands.messages import PolledMessages, SendMessages
from borzoi.protocol.commands.partitions import CreatePartitions, DeletePartitions
from borzoi.protocol.commands.streams import CreateStream
from borzoi.records.message import decode_messages

pytestmark = pytest.mark.crash

CYCLES = int(os.environ.get("BORZOI_CRASH_CYCLES", "4"))
SEED = int(os.environ.get("BORZOI_CRASH_SEED", "0")) or int.from_bytes(os.urandom(4), "little")


@dataclass
class Life:
    """What a topic was, as far as the client was told."""

    number: int
    #: Messages from this one on may be there; the ones before were purged.
    purged_before: int = 0
    sent: int = 0
    deleted: bool = False


@dataclass
class Told:
    lives: dict[str, Life] = field(default_factory=dict)
    numbers: "count[int]" = field(default_factory=count)
    done: int = 0


def live(client: WireClient, told: Told, random: Random, began: threading.Event) -> None:
    """One topic after another, each with the number of the one before, until the server dies."""
    while True:
        life = Life(next(told.numbers))
        name = f"topic-{life.number}"
        told.lives[name] = life
        client.call(topics.CreateTopic("s", name, 2))
        for _ in range(random.randint(1, 4)):
            for _ in range(random.randint(1, 3)):
                client.call(message(name, f"{life.number}/{life.sent}"))
                life.sent += 1
            if random.random() < 0.3:
                sent = life.sent
                client.call(topics.PurgeTopic("s", name))
                life.purged_before = sent
            elif random.random() < 0.3:
                client.call(DeletePartitions("s", name, 1))
                client.call(CreatePartitions("s", name, 1))
        client.call(topics.DeleteTopic("s", name))
        life.deleted = True
        told.done += 1
        began.set()


def message(topic: str, text: str) -> SendMessages:
    return send_of(text.encode(), topic=topic)


def check(server: RunningServer, told: Told) -> None:
    """Nothing is there that was deleted, and nothing in a topic that was sent to another."""
    with WireClient(server.tcp_address) as client:
        client.login()
        listed = client.call(topics.GetTopics("s"))
        names = [topic.name for topic in listed.topics] if isinstance(listed, topics.Topics) else []
        for name in names:
            life = told.lives[name]
            assert not life.deleted, f"{name} came back"
            found = client.call(topics.GetTopic("s", name))
            assert isinstance(found, topics.TopicDetails)
            for partition in found.partitions:
                polled = client.call(poll_of(1000, topic=name, partition=partition.id))
                assert isinstance(polled, PolledMessages)
                for one in decode_messages(polled.messages):
                    number, _, index = one.payload.decode().partition("/")
                    assert int(number) == life.number, f"{name} holds a message of another topic"
                    assert int(index) >= life.purged_before, f"{name} holds what was purged"
            client.call(topics.DeleteTopic("s", name))


def test_what_was_deleted_does_not_come_back(capsys: pytest.CaptureFixture[str]) -> None:
    random, told = Random(SEED), Told()
    with running_server() as server:
        with WireClient(server.tcp_address) as client:
            client.login()
            client.call(CreateStream("s"))
        try:
            for cycle in range(CYCLES):
                work_until_killed(server, told, Random(f"{SEED} {cycle}"), random)
                server.start()
                check(server, told)
        except AssertionError as fault:
            fault.add_note(f"seed {SEED}\n{server.output[-5000:]}")
            raise
        assert server.stop() == 0
    with capsys.disabled():
        print(f"\n{CYCLES} kills, {told.done} topics deleted, none came back (seed {SEED})")


def work_until_killed(server: RunningServer, told: Told, lives: Random, moments: Random) -> None:
    def work() -> None:
        with WireClient(server.tcp_address) as client:
            client.login()
            if told.done:
                # However slow the disk is, something was deleted before the first kill.
                began.set()
            try:
                live(client, told, lives, began)
            except (ConnectionError, Disconnected):
                return  # the second is what a shard says that outlives another one for a moment

    began = threading.Event()
    worker = threading.Thread(target=work)
    worker.start()
    assert began.wait(PATIENCE_SECONDS)
    worker.join(moments.uniform(0, 0.5))
    server.kill()
    worker.join()
