import csv
import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.command_line import one_of

from borzoi.cli.faults import CommandFailed
from borzoi.cli.sinks import READ_FORMATS
from borzoi.cli.sources import LOAD_FORMATS
from borzoi.cli.transferring import form_of, lanes_of, range_of
from borzoi.client.reading import TopicRange
from borzoi.model.partitioning import partition_for_key


@pytest.mark.parametrize(
    ("name", "given", "form"),
    [
        (None, None, "jsonl"),
        ("a.csv", None, "csv"),
        ("a.ndjson", None, "jsonl"),
        ("a.PARQUET", None, "parquet"),
        ("a.feather", None, "arrow"),
        ("a.txt", "csv", "csv"),
    ],
)
def test_the_format_of_a_file(name, given, form):
    assert form_of(None if name is None else Path(name), given, READ_FORMATS) == form


@pytest.mark.parametrize("name", ["a.txt", "a", "a.arrow"])
def test_an_unknown_ending_is_refused(name):
    with pytest.raises(CommandFailed, match="is not known by its ending"):
        form_of(Path(name), None, LOAD_FORMATS)


def test_keys_go_where_the_server_would_put_them():
    ann, bob = (partition_for_key(key, 5) for key in (b"ann", b"bob"))
    assert ann != bob
    lanes = lanes_of(["ann", "bob", "ann"], [b"1", b"2", b"3"], 5)
    assert lanes == {ann: [b"1", b"3"], bob: [b"2"]}


def test_ranges():
    assert range_of("3", "9", (1,)) == TopicRange(3, 9, (1,))
    assert range_of("first", None, ()) == TopicRange()
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert range_of("first", "2026-01-31T12:00+00:00", ()).end == noon


def rows_of(path: Path) -> list[int]:
    """The number in every payload, whatever the format."""
    if path.suffix == ".jsonl":
        return [json.loads(line)["payload"]["n"] for line in path.read_text().splitlines()]
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return [json.loads(row["payload"])["n"] for row in csv.DictReader(file)]
    table = pq.read_table(path) if path.suffix == ".parquet" else pa.ipc.open_file(path).read_all()
    return [json.loads(one)["n"] for one in table.column("payload").to_pylist()]


@pytest.mark.system
@pytest.mark.parametrize("form", READ_FORMATS)
def test_a_topic_is_read_into_a_file(borzoi, stream, tmp_path, form):
    path = tmp_path / f"orders.{form}"
    result = borzoi.invoke("read", "shop/orders", path)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "8 messages of shop/orders were read.\n"
    assert sorted(rows_of(path)) == [0, 0, 1, 1, 2, 2, 3, 3]
    borzoi.run("read", "shop/orders", path, "--from", 1, "--to", 3, "-p", 0, "-w", "json.n > 1")
    assert rows_of(path) == [2]


@pytest.mark.system
@pytest.mark.parametrize("form", ["json", "yaml", "jsonl"])
def test_a_summary_for_scripts(borzoi, client, stream, tmp_path, form):
    path = tmp_path / "orders.jsonl"
    read = borzoi.document("read", "shop/orders", path, form=form)
    assert one_of(read, form) == {"read": 8, "file": str(path)}
    client.create_topic("shop/copy")
    sent = borzoi.document("load", path, "shop/copy", form=form)
    assert one_of(sent, form) == {"sent": 8}
    sent = borzoi.document("replay", "shop/copy", "shop/orders", form=form)
    assert one_of(sent, form) == {"sent": 8}
    assert borzoi.invoke("read", "shop/orders", "-o", form).exit_code == 2


@pytest.mark.system
def test_keyed_rows_lie_where_the_server_puts_their_keys(borzoi, client, stream, tmp_path):
    client.create_topic("shop/keyed", partitions=5)
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f'{{"who": "user-{number}"}}\n' for number in range(50)))
    borzoi.run("load", path, "shop/keyed", "--key", "who", "--payload", "who")
    for number in range(50):
        client.send_messages("shop/keyed", [f"user-{number}"], key=f"user-{number}")
    for partition in range(5):
        found = client.poll_messages("shop/keyed", partition=partition, start="first", count=99)
        payloads = [one.payload for one in found]
        assert payloads
        half = len(payloads) // 2
        assert payloads[:half] == payloads[half:]


@pytest.mark.system
def test_standard_output_holds_the_rows_alone(borzoi, stream):
    said = borzoi.run("read", "shop/orders", "-p", "0")
    assert [json.loads(line)["offset"] for line in said.splitlines()] == [0, 1, 2, 3]
    assert borzoi.invoke("read", "shop/orders", "-f", "parquet").exit_code == 2


@pytest.mark.system
@pytest.mark.parametrize("form", LOAD_FORMATS)
def test_a_file_is_loaded_into_a_topic(borzoi, client, tmp_path, form):
    path = tmp_path / f"rows.{form}"
    rows = [{"who": "ann", "n": "1"}, {"who": "bob", "n": "2"}, {"who": "ann", "n": "3"}]
    if form == "jsonl":
        path.write_text("\n".join(json.dumps(row) for row in rows))
    elif form == "csv":
        path.write_text("who,n\nann,1\nbob,2\nann,3\n")
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    borzoi.run("load", path, "fresh/rows", "--create", "--key", "who")
    try:
        polled = client.poll_messages("fresh/rows", partition=0, start="first", count=9)
        found = [json.loads(one.payload) for one in polled]
        assert sorted(found, key=lambda row: row["n"]) == rows
        borzoi.run("load", path, "fresh/rows", "--payload", "n")
        polled = client.poll_messages("fresh/rows", partition=0, start=3, count=9)
        assert [one.payload for one in polled] == [b"1", b"2", b"3"]
    finally:
        client.delete_stream("fresh")


@pytest.mark.system
def test_a_wrong_row_is_named(borzoi, stream, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": 1}\noops\n')
    assert "line 2 of" in borzoi.refused(8, "load", path, "shop/orders")
    path.write_text('{"a": 1}\n')
    result = borzoi.invoke("load", path, "shop/orders", "--key", "b")
    assert "a row has no field 'b'" in result.stderr


@pytest.mark.system
def test_a_topic_is_replayed_with_ids(borzoi, client, stream):
    client.create_topic("shop/copy", partitions=2)
    borzoi.run("replay", "shop/orders", "shop/copy", "--keep-partitions")
    for partition in (0, 1):
        polls = [
            client.poll_messages(topic, partition=partition, start="first", count=9)
            for topic in ("shop/orders", "shop/copy")
        ]
        before, after = ([(one.id, one.payload) for one in polled] for polled in polls)
        assert before == after
    assert borzoi.invoke("replay", "shop/copy", "shop/copy").exit_code == 2
