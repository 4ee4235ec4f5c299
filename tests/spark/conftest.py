"""One Spark session and one server for all tests of a process: either takes seconds to start."""

import socket
from collections.abc import Iterator
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.support.server import RunningServer, running_server

from borzoi.model.partitioning import Partitioning
from borzoi.records.arrow import encode, requests
from borzoi.spark.broker import Broker
from borzoi.spark.lake.files import FileWriter, TableLayout
from borzoi.spark.lake.tables import Epoch, Table
from borzoi.spark.options import ConnectionOptions
from borzoi.spark.session import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    made = session("tests", cores=2, settings={"spark.driver.memory": "1g"})
    made.sparkContext.setLogLevel("OFF")
    yield made
    made.stop()


@pytest.fixture(scope="session")
def server() -> Iterator[RunningServer]:
    with running_server({"SYSTEM_SEGMENT_SIZE": "1 MiB"}) as started:
        yield started
        assert started.process.poll() is None, started.output


@pytest.fixture
def free_port() -> int:
    """A port at which nothing listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


@pytest.fixture
def servers(server: RunningServer) -> str:
    """The address as an option."""
    host, port = server.tcp_address
    return f"{host}:{port}"


@pytest.fixture
def broker(servers: str) -> Iterator[Broker]:
    made = Broker(ConnectionOptions(servers))
    yield made
    made.close()


@pytest.fixture
def topic(broker: Broker) -> str:
    """A topic of its own with three partitions."""
    name = f"s{uuid4().hex[:8]}/events"
    broker.ensure_topic(name, 3)
    return name


@pytest.fixture
def reading(server: RunningServer, servers: str, topic: str) -> dict[str, str]:
    """Options that read the topic, from the server and from its files."""
    return {"servers": servers, "subscribe": topic, "dataDirectory": str(server.directory)}


def commit_epochs(table: Table, layout: TableLayout, batch: pa.RecordBatch, count: int) -> None:
    """Write the batch to a new table in so many epochs of the query `q`."""
    table.prepare(batch.schema)
    for epoch in range(count):
        writer = FileWriter(layout)
        writer.write(batch)
        table.commit(writer.close(), Epoch("q", epoch))


def fill(broker: Broker, topic: str, partition: int, payloads: list[bytes]) -> None:
    """Send these messages to one partition."""
    encoded = encode(pa.array(payloads, pa.binary()))
    for request in requests(encoded, bytes_max=256 * 1024, count_max=5000):
        broker.send(topic, Partitioning.partition(partition), request)
