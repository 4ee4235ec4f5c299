"""Pipelines in Python files."""

from pathlib import Path

import pytest

from borzoi.spark.pipelines.functions import load_python
from borzoi.spark.pipelines.model import InvalidPipeline

FILE = """
from borzoi.spark.pipelines.functions import Definition

define = Definition(
    "orders",
    trigger="5s",
    server={"address": "host:1"},
    tables={"countries": {"csv": "countries.csv"}},
    dead_letter="shop/dead",
)

@define.source
def orders():
    return {"subscribe": "shop/orders", "start": "earliest", "format": {"json": "id long"}}

@define.step(inputs=["orders", "countries"], expect="id > 0", on_error="dead_letter")
def large(orders, countries):
    return orders.join(countries, "id")

@define.sink(source="large")
def lake():
    return {"table": {"parquet": "lake"}}
"""


def test_a_python_file_is_the_same_model(tmp_path: Path) -> None:
    path = tmp_path / "orders.py"
    path.write_text(FILE)
    found = load_python(path)
    assert found.trigger == "5s"
    assert found.server == {"servers": "host:1"}
    assert found.sources["orders"].options["subscribe"] == "shop/orders"
    step = found.step("large")
    assert step is not None
    assert step.function is not None
    assert step.inputs == ("orders", "countries")
    assert (step.expect, step.on_error) == ("id > 0", "dead_letter")
    assert found.sources["orders"].on_error == "dead_letter"
    assert found.tables["countries"].path == str(tmp_path / "countries.csv")
    assert found.dead_letter == "shop/dead"
    lake = found.sinks["lake"].lake
    assert lake is not None
    assert lake.directory == str(tmp_path / "lake")


def test_a_file_without_one_definition_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.py"
    path.write_text("x = 1\n")
    with pytest.raises(InvalidPipeline, match="0 Definitions"):
        load_python(path)
    with pytest.raises(InvalidPipeline, match="cannot read"):
        load_python(tmp_path / "absent.py")
