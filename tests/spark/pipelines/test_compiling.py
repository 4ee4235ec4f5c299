"""Pipelines as data frames, and how spans reach Spark."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from borzoi.spark.pipelines.compiling import (
    _spark_duration,
    compile_pipeline,
    frames_of,
    step_frames,
)
from borzoi.spark.pipelines.model import InvalidPipeline, Step
from borzoi.spark.pipelines.reading import pipeline_of


@pytest.mark.parametrize(("text", "spark"), [("5s", "5000 milliseconds"), ("0", "1 milliseconds")])
def test_spans_are_written_as_spark_reads_them(text: str, spark: str) -> None:
    assert _spark_duration(text) == spark


@pytest.mark.spark
def test_static_tables_functions_and_watermarks_are_compiled(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Nothing is started, so no server is needed."""
    (tmp_path / "countries.csv").write_text("country,name\nAT,Austria\n")
    found = pipeline_of(
        {
            "pipeline": {"name": "p", "trigger": "5s"},
            "source": {
                "raw": {
                    "subscribe": "a/b",
                    "start": "earliest",
                    "format": {"json": "country string, at timestamp"},
                    "on_error": "drop",
                    "watermark": {"column": "at", "delay": "1 minute"},
                }
            },
            "table": {"countries": {"csv": "countries.csv", "options": {"header": True}}},
            "step": [
                {
                    "name": "named",
                    "from": ["raw", "countries"],
                    "sql": "select name, at from raw join countries using (country)",
                }
            ],
            "sink": {
                "out": {"from": "named", "topic": "a/c", "key": "name"},
                "show": {"from": "named", "console": True},
            },
        },
        tmp_path,
    )
    flows = compile_pipeline(spark, found)
    assert [(flow.name, flow.plane) for flow in flows] == [("out", "row"), ("show", "row")]
    assert frames_of(spark, found).named["named"].columns == ["name", "at"]


@pytest.mark.spark
def test_rows_of_a_step_that_do_not_meet_its_condition_are_dead_letters(
    spark: SparkSession, tmp_path: Path
) -> None:
    """As a batch: the frames of a pipeline do not care whether they are streams."""
    step = Step(
        "large",
        ("orders",),
        sql="select id, concat('{', string(id), '}') text, _meta from orders;",
        expect="id > 1",
        on_error="dead_letter",
    )
    meta = "named_struct('topic', 's/t', 'partition', 0, 'offset', 5L, 'payload', binary('x'))"
    orders = spark.sql(f"select id, {meta} _meta from values (1), (2) as t(id)")
    good, bad = step_frames(spark, step, {"orders": orders})
    assert [(row.id, row.text) for row in good.collect()] == [(2, "{2}")]
    assert bad is not None
    (letter,) = bad.collect()
    assert (bytes(letter.payload), letter["__topic"], letter["__offset"]) == (b"x", "s/t", 5)
    assert letter.headers == {
        "error": "not met: id > 1",
        "step": "large",
        "source": "s/t",
        "offset": "0:5",
    }
    dropping = replace(step, on_error="drop")
    assert step_frames(spark, dropping, {"orders": orders})[1] is None
    failing, _ = step_frames(spark, replace(step, on_error=None), {"orders": orders})
    with pytest.raises(Exception, match=r"large s/t\[0\]@5 not met: id > 1"):
        failing.collect()
    with pytest.raises(InvalidPipeline, match="column _meta"):
        step_frames(spark, replace(step, sql="select id from orders"), {"orders": orders})
