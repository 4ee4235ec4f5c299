"""A pipeline as data frames: one view for each source, table and step, one query for each sink.

A source with JSON payloads becomes a view of its columns and `_meta`: topic, partition, offset,
timestamp and id of the message. A step that keeps `_meta` keeps the lineage of its rows, and a
topic sink derives message ids from it; otherwise ids come from all columns of a row.

Records that cannot be parsed, or do not meet `expect`, fail the query, are dropped, or go to the
dead-letter topic with the reason. Dead letters have their own query, which reads the topic again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from borzoi.model.units import parse_duration
from borzoi.spark.pipelines.model import Lake, Pipeline, Sink, Source
from borzoi.spark.progress import BYTES_METRIC

META: Final = "_meta"
CORRUPT: Final = "_corrupt"
#: Columns of a message that `_meta` contains.
META_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "id")
DEAD_LETTERS: Final = "dead-letters"


@dataclass(frozen=True, slots=True)
class Flow:
    """A query that is ready to start."""

    name: str
    writer: DataStreamWriter
    checkpoint: str
    plane: str


def compile_pipeline(spark: SparkSession, pipeline: Pipeline) -> list[Flow]:
    """The queries of a pipeline, not started."""
    for table in pipeline.tables.values():
        frame = spark.read.format(table.format).options(**table.options).load(table.path)
        frame.createOrReplaceTempView(table.name)
    rejects: list[DataFrame] = []
    for source in pipeline.sources.values():
        good, bad = source_frames(spark, pipeline, source)
        good.createOrReplaceTempView(source.name)
        if bad is not None:
            rejects.append(bad)
    for step in pipeline.steps:
        if step.function is not None:
            frame = step.function(*(spark.table(name) for name in step.inputs))
        else:
            assert step.sql is not None
            for name in step.inputs:
                if step.watermark is not None:
                    marked = spark.table(name).withWatermark(
                        step.watermark.column, step.watermark.delay
                    )
                    marked.createOrReplaceTempView(name)
            frame = spark.sql(step.sql)
        frame.createOrReplaceTempView(step.name)
    flows = [sink_flow(spark, pipeline, sink) for sink in pipeline.sinks.values()]
    if rejects and pipeline.dead_letter is not None:
        flows.append(dead_letter_flow(pipeline, rejects))
    return flows


# ---- sources ------------------------------------------------------------------------------------


def reader_options(pipeline: Pipeline, source: Source) -> dict[str, str]:
    columns = "stream,topic,partition,offset,timestamp,id,payload"
    chosen = {"columns": columns} if source.json is not None else {}
    return dict(pipeline.server) | chosen | dict(source.options)


def source_frames(
    spark: SparkSession, pipeline: Pipeline, source: Source
) -> tuple[DataFrame, DataFrame | None]:
    """Return the rows of the source, and the dead letters."""
    options = reader_options(pipeline, source)
    options["consumerName"] = source.options.get("consumerName", f"spark-{pipeline.name}")
    raw = counted(spark.readStream.format("borzoi").options(**options).load(), source.name)
    if source.json is None:
        return _watermarked(raw, source), None
    parsed = parsed_frame(raw, source.json)
    columns = [F.col(f"_value.{name}") for name in _value_names(parsed)]
    unreadable = F.col(f"_value.{CORRUPT}").isNotNull() | F.col("_value").isNull()
    flat = parsed.select(*columns, META, "payload", unreadable.alias("_unreadable"))
    rows = flat.withColumn("_problem", problem_of(source)).drop("_unreadable")
    if source.on_error == "fail":
        guard = F.when(F.col("_problem").isNull(), F.lit(True)).otherwise(
            F.raise_error(F.concat_ws(" ", F.lit(source.name), _place(), F.col("_problem")))
        )
        good = rows.filter(guard.cast("boolean"))
    else:
        good = rows.filter(F.col("_problem").isNull())
    clean = _watermarked(good.drop("payload", "_problem"), source)
    if source.on_error != "dead_letter":
        return clean, None
    bad = rows.filter(F.col("_problem").isNotNull())
    return clean, dead_letters(bad, source)


def counted(frame: DataFrame, name: str) -> DataFrame:
    """Return the frame, which also reports the bytes of its payloads after each batch."""
    if "payload" not in frame.columns:
        return frame
    size = F.sum(F.length("payload")).alias("bytes")
    return frame.observe(f"{BYTES_METRIC}_{name}", size)


def parsed_frame(raw: DataFrame, ddl: str) -> DataFrame:
    """Return messages with the payload parsed as JSON into `_value`, which includes `_corrupt`."""
    schema = f"{ddl}, {CORRUPT} string"
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    meta = F.struct(
        F.concat_ws("/", "stream", "topic").alias("topic"),
        *(F.col(name) for name in META_COLUMNS[1:]),
    )
    value = F.from_json(F.col("payload").cast("string"), schema, options)
    return raw.select(value.alias("_value"), meta.alias(META), "payload")


def _value_names(parsed: DataFrame) -> list[str]:
    names: list[str] = parsed.schema["_value"].dataType.fieldNames()  # type: ignore[attr-defined]
    return [name for name in names if name != CORRUPT]


def problem_of(source: Source) -> Column:
    """The reason to reject a record; null for valid ones."""
    problem = F.when(F.col("_unreadable"), F.lit("the payload is not JSON of the declared columns"))
    if source.expect is not None:
        met = F.coalesce(F.expr(source.expect), F.lit(False))
        problem = problem.when(~met, F.lit(f"not met: {source.expect}"))
    return problem


def _place() -> Column:
    meta = [F.col(f"{META}.{name}").cast("string") for name in ("partition", "offset")]
    return F.concat(F.col(f"{META}.topic"), F.lit("["), meta[0], F.lit("]@"), meta[1])


def dead_letters(bad: DataFrame, source: Source) -> DataFrame:
    """Rejected records as messages: the original payload, the reason in the headers."""
    headers = F.create_map(
        F.lit("error"),
        F.col("_problem"),
        F.lit("step"),
        F.lit(source.name),
        F.lit("source"),
        F.col(f"{META}.topic"),
        F.lit("offset"),
        F.concat_ws(":", F.col(f"{META}.partition"), F.col(f"{META}.offset")),
    )
    return bad.select("payload", headers.alias("headers"), *lineage_columns())


def lineage_columns() -> list[Column]:
    return [
        F.col(f"{META}.topic").alias("__topic"),
        F.col(f"{META}.partition").alias("__partition"),
        F.col(f"{META}.offset").alias("__offset"),
    ]


def _watermarked(frame: DataFrame, source: Source) -> DataFrame:
    if source.watermark is None:
        return frame
    return frame.withWatermark(source.watermark.column, source.watermark.delay)


# ---- sinks --------------------------------------------------------------------------------------


def sink_flow(spark: SparkSession, pipeline: Pipeline, sink: Sink) -> Flow:
    if is_bulk(pipeline, sink):
        assert sink.lake is not None
        source = pipeline.sources[sink.source]
        options = reader_options(pipeline, source)
        frame = spark.readStream.format("borzoi").options(**options | {"plane": "bulk"}).load()
        writer = lake_writer(frame, sink.lake, options)
        return _flow(pipeline, sink.name, writer, "bulk")
    frame = spark.table(sink.source)
    step = pipeline.step(sink.source)
    if sink.topic is not None:
        writer = topic_writer(pipeline, sink, frame)
    elif sink.lake is not None:
        writer = lake_writer(_without_meta(frame), sink.lake, {})
    else:
        writer = frame.writeStream.format("console").option("truncate", "false")
    return _flow(pipeline, sink.name, writer.outputMode(step.output if step else "append"), "row")


def is_bulk(pipeline: Pipeline, sink: Sink) -> bool:
    """Whether the pipeline only copies: then messages need not pass through the JVM."""
    source = pipeline.sources.get(sink.source)
    return source is not None and source.json is None and sink.lake is not None


def lake_writer(frame: DataFrame, lake: Lake, source: Mapping[str, str]) -> DataStreamWriter:
    options = {
        "table": lake.kind,
        "directory": lake.directory,
        "targetFileSize": lake.target_file_size,
    }
    if lake.partition_by:
        options["partitionBy"] = ",".join(lake.partition_by)
    if lake.name is not None:
        options["name"] = lake.name
    return frame.writeStream.format("borzoi-lake").options(**dict(source) | options)


def topic_writer(pipeline: Pipeline, sink: Sink, frame: DataFrame) -> DataStreamWriter:
    """Rows as messages: a column `payload` as it is, or all columns as JSON."""
    assert sink.topic is not None
    names = frame.columns
    options: dict[str, Any] = dict(pipeline.server) | {"topic": sink.topic} | dict(sink.options)
    data = [name for name in names if name != META]
    columns: list[Column] = []
    if "payload" in data:
        kept = ("payload", "headers", "origin_timestamp", "id", "partition", "offset")
        columns += [F.col(name) for name in data if name in kept]
        if {"stream", "topic", "offset"} <= set(data):
            columns.append(F.concat_ws("/", "stream", "topic").alias("__topic"))
    else:
        columns.append(F.to_json(F.struct(*data)).alias("payload"))
    if sink.key is not None:
        columns.append(F.col(sink.key).cast("string").alias("key"))
    if META in names:
        columns += lineage_columns()
    elif "offset" not in data and "idempotence" not in sink.options:
        columns.append(F.to_json(F.struct(*data)).alias("__row"))
        options |= {"idempotence": "key", "idColumns": "__row"}
    return frame.select(*columns).writeStream.format("borzoi").options(**options)


def dead_letter_flow(pipeline: Pipeline, rejects: list[DataFrame]) -> Flow:
    assert pipeline.dead_letter is not None
    frame = rejects[0]
    for other in rejects[1:]:
        frame = frame.unionByName(other)
    options = dict(pipeline.server) | {"topic": pipeline.dead_letter, "createPartitions": "1"}
    writer = frame.writeStream.format("borzoi").options(**options)
    return _flow(pipeline, DEAD_LETTERS, writer, "row")


def _without_meta(frame: DataFrame) -> DataFrame:
    return frame.drop(META)


def _flow(pipeline: Pipeline, name: str, writer: DataStreamWriter, plane: str) -> Flow:
    checkpoint = str(pipeline.checkpoint / name)
    writer = writer.queryName(f"{pipeline.name}-{name}").option("checkpointLocation", checkpoint)
    return Flow(name, _triggered(writer, pipeline.trigger), checkpoint, plane)


def _triggered(writer: DataStreamWriter, trigger: str) -> DataStreamWriter:
    if trigger in ("once", "available-now"):
        return writer.trigger(availableNow=True)
    if trigger == "continuous":
        return writer.trigger(processingTime="0 seconds")
    return writer.trigger(processingTime=_spark_duration(trigger))


def _spark_duration(text: str) -> str:
    """Return the span as Spark parses it, with full unit names."""
    return f"{max(1, parse_duration(text) // 1000)} milliseconds"
