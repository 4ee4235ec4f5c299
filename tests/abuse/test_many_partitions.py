"""A user that may only manage topics cannot exhaust the server's descriptors by creating them."""

import os

import pytest
from tests.support.polls import poll_of
from tests.support.sends import send_of
from tests.support.server import RunningServer, running_server
from tests.support.shard_processes import shard_processes
from tests.support.wire_client import WireClient

from borzoi.model.consuming import PollingStrategy
from borzoi.model.partitioning import Partitioning
from borzoi.protocol.commands.messages import PolledMessages
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic

pytestmark = pytest.mark.system


def create(client: WireClient, topics: int, partitions: int) -> None:
    client.call(CreateStream("s"))
    for number in range(topics):
        client.call(CreateTopic("s", f"t{number}", partitions))


def send(client: WireClient, topic: int, partition: int) -> None:
    place = Partitioning.partition(partition)
    client.call(send_of(bytes(100), topic=f"t{topic}", partitioning=place))


def polled(client: WireClient, topic: int, partition: int) -> int:
    start = PollingStrategy.offset(0)
    poll = poll_of(9, topic=f"t{topic}", partition=partition, strategy=start, commit=True)
    found = client.call(poll)
    assert isinstance(found, PolledMessages)
    return found.messages_count


def descriptors_of(server: RunningServer) -> int:
    """Of the process that has most."""
    processes = [server.process.pid, *shard_processes(server).values()]
    return max(len(os.listdir(f"/proc/{process}/fd")) for process in processes)


@pytest.mark.parametrize(
    ("descriptors", "topics", "partitions", "shards"),
    [
        (128, 2, 300, 1),
        (128, 2, 300, 3),
        pytest.param(4096, 3, 1000, 1, marks=pytest.mark.deep),
        pytest.param(1024, 10, 1000, 1, marks=pytest.mark.deep),
    ],
)
def test_more_partitions_than_descriptors_are_created_served_and_restarted(
    descriptors: int, topics: int, partitions: int, shards: int
) -> None:
    settings = {"SYSTEM_SHARDING_CPU_ALLOCATION": str(shards)}
    places = [(topic, partition) for topic in range(topics) for partition in range(partitions)]
    with running_server(settings, descriptors=descriptors) as server:
        with WireClient(server.tcp_address) as client:
            client.login()
            create(client, topics, partitions)
            for place in places:
                send(client, *place)
            assert descriptors_of(server) < descriptors
            # Another one gets in, and every partition has what was sent to it.
            with WireClient(server.tcp_address) as other:
                other.login()
                for place in places:
                    assert polled(other, *place) == 1
            assert descriptors_of(server) < descriptors
        assert server.stop() == 0
        server.start()
        with WireClient(server.tcp_address) as client:
            client.login()
            for place in places[:: max(len(places) // 50, 1)]:
                send(client, *place)
                assert polled(client, *place) == 2
            assert descriptors_of(server) < descriptors
        server.kill()
        server.start()
        with WireClient(server.tcp_address) as client:
            client.login()
            assert [polled(client, *place) for place in (places[0], places[1])] == [2, 1]
        assert "Too many open files" not in server.output
        assert "Traceback" not in server.output
