"""A topic as a table, of a real server."""

from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import polars as pl
import pytest

import borzoi
from borzoi.client import Client, NewMessage, reading
from borzoi.model.errors import FeatureUnavailable, InvalidFormat, TopicNotFound


@pytest.fixture
def topic(url: str) -> Any:
    with Client(url) as client:
        client.ensure_topic("reading/events", partitions=2)
        client.send_messages(
            "reading/events", [str(number) for number in range(25_000)], partition=0
        )
        client.send_messages(
            "reading/events", [NewMessage("with headers", {"k": 1}, id=5)], partition=1
        )
        yield "reading/events"
        client.delete_stream("reading")


def test_all_of_it(topic: str, url: str) -> None:
    table = borzoi.read(topic, server=url).to_arrow()
    assert table.num_rows == 25_001
    assert table.column_names[:2] == ["partition", "offset"]
    assert table["payload"][24_999].as_py() == b"24999"
    assert table["partition"].to_pylist()[-1] == 1
    assert table["id"][25_000].as_py() == bytes(15) + b"\x05"


def test_a_part_of_it(topic: str, url: str) -> None:
    def offsets(**part: Any) -> list[int]:
        table = borzoi.read(topic, server=url, partitions=[0], columns=["offset"], **part)
        return table.to_arrow()["offset"].to_pylist()

    assert offsets(start=10, end=12) == [10, 11]
    assert offsets(start=24_998) == [24_998, 24_999]
    assert offsets(end=0) == []
    assert offsets(start=99_999) == []
    assert offsets(start=15_000, end=15_001) == [15_000]
    hour = timedelta(hours=1)
    now = datetime.now(UTC)
    assert len(offsets(start=now - hour, end=now + hour)) == 25_000
    assert offsets(start=now + hour) == []
    assert offsets(end=now - hour) == []


def test_every_library_gets_the_same(topic: str, url: str) -> None:
    table = borzoi.read(topic, server=url, columns=["stream", "topic", "offset"])
    frame = table.to_polars()
    assert isinstance(frame, pl.DataFrame)
    assert frame.height == 25_001
    assert frame["topic"].unique().to_list() == ["events"]
    assert len(table.to_pandas()) == 25_001
    with duckdb.connect() as connection:
        relation = table.to_duckdb(connection)
        assert relation.aggregate('max("offset")').fetchall() == [(24_999,)]


def test_mistakes_are_told(topic: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TopicNotFound):
        borzoi.read("reading/nothing", server=url).to_arrow()
    with pytest.raises(InvalidFormat, match="there is no column 'colour'"):
        borzoi.read(topic, server=url, columns=["colour"]).to_arrow()
    with pytest.raises(InvalidFormat, match="start is -1"):
        borzoi.read(topic, start=-1)

    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(reading, "import_module", missing)
    with pytest.raises(FeatureUnavailable, match="pip install 'polars'"):
        borzoi.read(topic, server=url).to_polars()


def test_it_shows_what_it_is() -> None:
    assert repr(borzoi.read("s/t", start=5)) == "<s/t from 5 to the last>"
