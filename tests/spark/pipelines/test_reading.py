"""Pipeline files: what they mean, and the error for each mistake."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.spark.pipelines.documents import GOOD, changed, document
from tests.spark.pipelines.orders import FOLDER

from borzoi.spark.commands import TEMPLATE
from borzoi.spark.pipelines.model import InvalidPipeline
from borzoi.spark.pipelines.reading import load_pipeline, pipeline_of


def test_a_file_is_read_with_paths_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text(GOOD)
    found = load_pipeline(path)
    assert found.checkpoint == tmp_path / "checkpoints" / "p"
    assert found.server == {"servers": "host:1", "tokenEnv": "TOKEN"}
    orders = found.sources["orders"]
    assert orders.options["startingOffsets"] == '{"0": 5, "1": 9}'
    assert orders.options["maxBytesPerTrigger"] == "256 MiB"
    assert (orders.json, orders.expect) == ("id long", "id > 0")
    assert found.tables["countries"].path == str(tmp_path / "countries.csv")
    assert found.tables["countries"].options == {"header": "true"}
    step = found.step("clean")
    assert step is not None
    assert step.inputs == ("orders", "countries")
    assert found.step("absent") is None
    lake = found.sinks["lake"].lake
    assert lake is not None
    assert lake.directory == str(tmp_path / "lake" / "orders")
    assert found.sinks["out"].options == {"createPartitions": "3"}


def test_the_file_of_pipeline_new_is_valid(tmp_path: Path) -> None:
    text = TEMPLATE.format(file="x.toml", name="x")
    assert pipeline_of(tomllib.loads(text), tmp_path).name == "x"


@pytest.mark.parametrize("name", ["orders.toml", "demo.toml"])
def test_the_examples_are_valid(name: str) -> None:
    found = load_pipeline(FOLDER / name)
    assert list(found.sinks) == ["lake", "totals"]
    assert found.sources["orders"].on_error == "dead_letter"


@pytest.mark.parametrize(
    ("start", "option", "value"),
    [
        ("latest", "startingOffsets", "latest"),
        ("-2h", "startingTimestamp", "-2h"),
        ("2026-11-01T00:00Z", "startingTimestamp", "2026-11-01T00:00Z"),
    ],
)
def test_a_source_starts_by_word_or_time(start: str, option: str, value: str) -> None:
    said = document()
    said["source"]["orders"]["start"] = start
    assert pipeline_of(said, Path()).sources["orders"].options[option] == value


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        ("pipelin", {}, "did you mean 'pipeline'?"),
        ("pipeline", None, "the section [pipeline] is missing"),
        ("pipeline.name", None, "[pipeline] name is missing"),
        ("pipeline.trigger", "often", "[pipeline] trigger = 'often' is not once"),
        ("server.token", "secret", "[server] token must name where the secret is"),
        ("server.token", {"evn": "X"}, "did you mean 'env'?"),
        ("source.orders.start", None, "[source.orders] start is missing"),
        ("source.orders.subscrib", "x", "did you mean 'subscribe'?"),
        ("source.orders.subscribe", "orders", "[source.orders]: option subscribe = 'orders'"),
        ("source.orders.on_error", "ignore", "on_error = 'ignore' is not one of fail, drop"),
        ("source.orders.format", "xml", "format = 'xml' is not one of binary, string"),
        ("source", {"subscribe": "x"}, "[source] needs a name"),
        ("source", {}, "at least one [source.NAME]"),
        ("table.countries", {"xls": "a"}, "has no key 'xls'"),
        ("table.countries", {"csv": "a", "orc": "b"}, "exactly one of parquet, csv"),
        ("step.0.from", ["order"], "did you mean 'orders'?"),
        ("step.0.name", "orders", "the name 'orders' is used twice"),
        ("step.0.output", "all", "output = 'all' is not one of append"),
        ("step.0.watermark", {"column": "at"}, "delay is missing"),
        ("sink.out.from", "nothing", "names 'nothing', which is not defined before"),
        ("sink.out.table", {"delta": "x"}, "exactly one of topic, table and console"),
        ("sink.out.topic", "out", "topic = 'out' is not stream/topic"),
        ("sink.lake.table", {"delta": "x", "parquet": "y"}, "exactly one of parquet, delta"),
        ("sink.lake.table", {"delta": "x", "target_file_size": "big"}, "a size such as 128 MiB"),
        ("dead_letter", None, "[dead_letter] is missing"),
        ("source.orders.format", "binary", "[source.orders] expect needs a format with json"),
        ("step.0.on_error", "ignore", "on_error = 'ignore' is not one of fail, drop"),
        ("step.0.expected", "x", "did you mean 'expect'?"),
        ("server", 5, "[server] must be a table of keys"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(path: str, value: Any, sentence: str) -> None:
    with pytest.raises(InvalidPipeline) as raised:
        pipeline_of(changed(path, value), Path())
    assert sentence in str(raised.value)


def test_files_that_are_no_toml_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidPipeline, match="cannot read"):
        load_pipeline(tmp_path / "absent.toml")
    (tmp_path / "bad.toml").write_text("= 1")
    with pytest.raises(InvalidPipeline, match="is not TOML"):
        load_pipeline(tmp_path / "bad.toml")
