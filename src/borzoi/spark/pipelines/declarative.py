"""A pipeline file as a Spark Declarative Pipeline: its sinks and what flows into them.

A file that `spark-pipelines` loads says::

    from borzoi.spark.pipelines.declarative import define

    define("orders.toml")

Spark keeps the checkpoints below the `storage` of its own specification and runs until everything
is read. Formats are found by their modules (`pyspark_borzoi`, `pyspark_borzoi_lake`).
"""

from collections.abc import Callable
from pathlib import Path

from pyspark import pipelines as declarative
from pyspark.sql import DataFrame, SparkSession

from borzoi.spark.commands import load
from borzoi.spark.pipelines.compiling import SinkOutput, outputs_of


def define(path: str | Path) -> None:
    """Define a sink for each sink of a pipeline file, and the flow into it."""
    pipeline = load(Path(path))
    for output in outputs_of(SparkSession.active(), pipeline):
        sink = output.name.replace("-", "_")
        declarative.create_sink(sink, output.format, dict(output.options))
        declarative.append_flow(target=sink, name=f"{sink}_flow")(_frame_of(output))


def _frame_of(output: SinkOutput) -> Callable[[], DataFrame]:
    return lambda: output.frame
