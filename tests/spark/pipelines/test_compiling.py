"""Which plane a sink is on, and how spans reach Spark."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from borzoi.spark.pipelines.compiling import _spark_duration, compile_pipeline, frames_of
from borzoi.spark.pipelines.model import Pipeline, pipeline_of


def pipeline(source: dict[str, Any], sinks: dict[str, Any], folder: Path = Path()) -> Pipeline:
    return pipeline_of(
        {
            "pipeline": {"name": "p"},
            "source": {"raw": {"subscribe": "a/b", "start": "earliest"} | source},
            "sink": sinks,
        },
        folder,
    )


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
