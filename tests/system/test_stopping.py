"""A stop is quick, however many partitions have something to save."""

import time

import pytest
from tests.support.sends import send_of
from tests.support.server import running_server
from tests.support.wire_client import WireClient

from borzoi.model.limits import PARTITIONS_PER_REQUEST_MAX
from borzoi.model.partitioning import Partitioning
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic, GetTopic, TopicDetails
from borzoi.server import exit_statuses
from borzoi.server.process import STOP_SECONDS_MAX

pytestmark = pytest.mark.system

PARTITIONS = PARTITIONS_PER_REQUEST_MAX


@pytest.mark.deep  # half a minute of the disk, which what runs beside it would miss
@pytest.mark.parametrize("acknowledge", ["buffered", "written"])
def test_a_thousand_partitions_are_saved_within_the_time_of_a_stop(acknowledge: str) -> None:
    with running_server({"SYSTEM_PARTITION_ACKNOWLEDGE": acknowledge}) as server:
        with WireClient(server.tcp_address) as client:
            client.login()
            client.call(CreateStream("s"))
            client.call(CreateTopic("s", "t", PARTITIONS))
            for number in range(PARTITIONS):
                client.call(send_of(b"kept", partitioning=Partitioning.partition(number)))
        began = time.monotonic()
        assert server.stop() == exit_statuses.OK, server.output
        assert time.monotonic() - began <= STOP_SECONDS_MAX
        server.start()
        with WireClient(server.tcp_address) as client:
            client.login()
            found = client.call(GetTopic("s", "t"))
            assert isinstance(found, TopicDetails)
            assert [one.messages_count for one in found.partitions] == [1] * PARTITIONS
