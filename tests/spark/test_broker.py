"""What the connector asks of a server."""

from pathlib import Path

import pytest
from tests.spark.conftest import fill

from borzoi.client import Password, Token
from borzoi.model.errors import CannotConnect
from borzoi.spark.broker import (
    Broker,
    broker_of_worker,
    client_options,
    close_brokers_of_worker,
    name_parts,
)
from borzoi.spark.offsets import PartitionKey
from borzoi.spark.options import ConnectionOptions, InvalidOption


def test_extents_count_what_a_partition_holds(broker: Broker, topic: str) -> None:
    fill(broker, topic, 1, [b"x" * 36] * 10)
    extents = broker.extents([topic, "absent/topic"])
    assert (extents[PartitionKey(topic, 1)].earliest, extents[PartitionKey(topic, 1)].latest) == (
        0,
        10,
    )
    assert extents[PartitionKey(topic, 1)].mean_bytes == 100
    assert (extents[PartitionKey(topic, 0)].earliest, extents[PartitionKey(topic, 0)].latest) == (
        0,
        0,
    )
    assert set(broker.extents([topic], {topic: (2,)})) == {PartitionKey(topic, 2)}
    with pytest.raises(InvalidOption, match="partition 9"):
        broker.extents([topic], {topic: (9,)})


def test_topics_are_found_by_pattern(broker: Broker, topic: str) -> None:
    stream = topic.partition("/")[0]
    assert broker.matching_topics(f"{stream}/.*") == [topic]
    assert broker.matching_topics(f"{stream}/even") == []


def test_times_and_offsets_are_looked_up(broker: Broker, topic: str) -> None:
    key = PartitionKey(topic, 0)
    fill(broker, topic, 0, [b"a", b"b"])
    time = broker.timestamp_at(key, 1)
    assert time is not None
    assert broker.find_time(key, time) in (0, 1)
    assert broker.find_time(key, time + 3_600_000_000) is None
    assert broker.timestamp_at(key, 99) is None
    assert broker.stored_offset("somebody", key) is None


def test_secrets_are_read_where_they_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("from-file\n")
    monkeypatch.setenv("SECRET", "from-env")
    by_file = client_options(ConnectionOptions("h:1", password_file=str(tmp_path / "secret")))
    assert by_file.credentials == Password("iggy", "from-file")
    by_env = client_options(ConnectionOptions("h:1,h:2", token_env="SECRET"))
    assert by_env.credentials == Token("from-env")
    assert len(by_env.addresses) == 2
    with pytest.raises(InvalidOption, match="'NOT_THERE', which is not set"):
        client_options(ConnectionOptions("h:1", password_env="NOT_THERE"))
    whole = client_options(ConnectionOptions("x:1", connection="borzoi://a:b@host:5"))
    assert whole.credentials == Password("a", "b")


def test_a_server_that_is_not_there_is_tried_again(free_port: int) -> None:
    connection = ConnectionOptions(f"127.0.0.1:{free_port}", retries=2, retry_interval=1000)
    with pytest.raises(CannotConnect):
        Broker(connection).topic("a/b")


def test_a_worker_keeps_its_connection() -> None:
    connection = ConnectionOptions("127.0.0.1:1")
    assert broker_of_worker(connection) is broker_of_worker(connection)
    close_brokers_of_worker()
    assert name_parts("1/t") == (1, "t")
