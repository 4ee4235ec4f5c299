"""A pipeline as data frames: one for each source, table and step, one query for each sink.

A source with JSON payloads becomes a frame of its columns and `_meta`: topic, partition, offset,
timestamp and id of the message. A step that keeps `_meta` keeps the lineage of its rows, and a
topic sink derives message ids from it; otherwise ids come from all columns of a row.

Records that cannot be parsed, or do not meet `expect`, fail the query, are dropped, or go to the
dead-letter topic with the reason. Dead letters have their own query, which reads the topic again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from borzoi.model.units import parse_duration
from borzoi.spark.options import CUTTING
from borzoi.spark.pipelines.model import InvalidPipeline, Lake, Pipeline, Sink, Source, Step
from borzoi.spark.progress import BYTES_METRIC

META: Final = "_meta"
CORRUPT: Final = "_corrupt"
#: Why a row is refused; null when it is not.
PROBLEM: Final = "_problem"
#: Columns of a message that `_meta` is made of.
META_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "id")
DEAD_LETTERS: Final = "dead-letters"


@dataclass(frozen=True, slots=True)
class SinkOutput:
    """Rows, and the format and options they are written with."""

    name: str
    frame: DataFrame
    format: str
    options: Mapping[str, str]
    plane: str = "row"
    mode: str = "append"
    #: The topic it writes to, when it writes to one.
    topic: str | None = None


@dataclass(frozen=True, slots=True)
class Flow:
    """A query that is ready to start."""

    name: str
    writer: DataStreamWriter
    checkpoint: str
    plane: str
    topic: str | None = None


def compile_pipeline(spark: SparkSession, pipeline: Pipeline) -> list[Flow]:
    """The queries of a pipeline, not started."""
    return [_flow(pipeline, each) for each in outputs_of(spark, pipeline)]


def outputs_of(spark: SparkSession, pipeline: Pipeline) -> list[SinkOutput]:
    """What the sinks of a pipeline write, and its dead letters."""
    frames = frames_of(spark, pipeline)
    found = [output_of(spark, pipeline, sink, frames) for sink in pipeline.sinks.values()]
    if frames.rejects and pipeline.dead_letter is not None:
        found.append(dead_letter_output(pipeline, frames.rejects))
    return found


@dataclass(frozen=True, slots=True)
class PipelineFrames:
    """What the names of a pipeline stand for, and what its sources and steps refuse."""

    named: dict[str, DataFrame]
    rejects: list[DataFrame]


def frames_of(spark: SparkSession, pipeline: Pipeline) -> PipelineFrames:
    """A data frame for each table, source and step."""
    named: dict[str, DataFrame] = {}
    rejects: list[DataFrame | None] = []
    for table in pipeline.tables.values():
        reader = spark.read.format(table.format).options(**table.options)
        named[table.name] = reader.load(table.path)
    for source in pipeline.sources.values():
        named[source.name], bad = source_frames(spark, pipeline, source)
        rejects.append(bad)
    for step in pipeline.steps:
        if step.watermark is not None:
            for name in step.inputs:
                marked = named[name].withWatermark(step.watermark.column, step.watermark.delay)
                named[name] = marked
        named[step.name], bad = step_frames(spark, step, named)
        rejects.append(bad)
    return PipelineFrames(named, [bad for bad in rejects if bad is not None])


def result_of(spark: SparkSession, sql: str, frames: Mapping[str, DataFrame]) -> DataFrame:
    """A query over data frames by their names, without views that others would see."""
    inputs = {f"input{number}": frame for number, frame in enumerate(frames.values())}
    named = [
        f"`{name}` as (select * from {{{key}}})"  # noqa: S608 - the user's own file
        for name, key in zip(frames, inputs, strict=True)
    ]
    query = sql.strip().rstrip(";").replace("{", "{{").replace("}", "}}")
    text = f"with {', '.join(named)} select * from (\n{query}\n)"  # noqa: S608
    return spark.sql(text, None, **inputs)


def step_frames(
    spark: SparkSession, step: Step, named: Mapping[str, DataFrame]
) -> tuple[DataFrame, DataFrame | None]:
    """Rows of a step, and those that go to the dead-letter topic."""
    inputs = {name: named[name] for name in step.inputs}
    if step.function is not None:
        frame = step.function(*inputs.values())
    else:
        assert step.sql is not None
        frame = result_of(spark, step.sql, inputs)
    if step.expect is None:
        return frame, None
    on_error = step.on_error or "fail"
    if on_error == "dead_letter" and META not in frame.columns:
        raise InvalidPipeline(
            f"[[step]] {step.name}: dead letters need the column _meta in the result"
        )
    judged = frame.withColumn(PROBLEM, unmet(step.expect))
    good, bad = parted(judged, on_error, step.name)
    if bad is None:
        return good, None
    return good, dead_letters(bad, step.name, F.col(f"{META}.payload"))


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
    parsed = parsed_frame(raw, source.json, keeps_payload=needs_payloads(pipeline))
    columns = [F.col(f"_value.{name}") for name in _value_names(parsed)]
    unreadable = F.col(f"_value.{CORRUPT}").isNotNull() | F.col("_value").isNull()
    flat = parsed.select(*columns, META, "payload", unreadable.alias("_unreadable"))
    rows = flat.withColumn(PROBLEM, problem_of(source)).drop("_unreadable")
    good, bad = parted(rows, source.on_error or "fail", source.name)
    clean = _watermarked(good.drop("payload"), source)
    return clean, None if bad is None else dead_letters(bad, source.name, F.col("payload"))


def parted(rows: DataFrame, on_error: str, name: str) -> tuple[DataFrame, DataFrame | None]:
    """Rows without a problem, and those with one when they are wanted."""
    is_good = F.col(PROBLEM).isNull()
    if on_error == "fail":
        place = [_place()] if META in rows.columns else []
        sentence = F.concat_ws(" ", F.lit(name), *place, F.col(PROBLEM))
        is_good = F.when(is_good, F.lit(True)).otherwise(F.raise_error(sentence).cast("boolean"))
    good = rows.filter(is_good).drop(PROBLEM)
    return good, rows.filter(F.col(PROBLEM).isNotNull()) if on_error == "dead_letter" else None


def needs_payloads(pipeline: Pipeline) -> bool:
    """Whether a step may refuse rows whose payload must be kept for a dead letter."""
    return any(step.expect and step.on_error == "dead_letter" for step in pipeline.steps)


def counted(frame: DataFrame, name: str) -> DataFrame:
    """Return the frame, which also reports the bytes of its payloads after each batch."""
    if "payload" not in frame.columns:
        return frame
    size = F.sum(F.length("payload")).alias("bytes")
    return frame.observe(f"{BYTES_METRIC}_{name}", size)


def parsed_frame(raw: DataFrame, ddl: str, *, keeps_payload: bool = False) -> DataFrame:
    """Messages with their payload read as JSON into `_value`, which has `_corrupt` as well."""
    kept = ("payload",) if keeps_payload else ()
    schema = f"{ddl}, {CORRUPT} string"
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    meta = F.struct(
        F.concat_ws("/", "stream", "topic").alias("topic"),
        *(F.col(name) for name in (*META_COLUMNS[1:], *kept)),
    )
    value = F.from_json(F.col("payload").cast("string"), schema, options)
    return raw.select(value.alias("_value"), meta.alias(META), "payload")


def _value_names(parsed: DataFrame) -> list[str]:
    names: list[str] = parsed.schema["_value"].dataType.fieldNames()  # type: ignore[attr-defined]
    return [name for name in names if name != CORRUPT]


def problem_of(source: Source) -> Column:
    """The reason to reject a record; null for valid ones."""
    problem = F.when(F.col("_unreadable"), F.lit("the payload is not JSON of the declared columns"))
    return problem if source.expect is None else problem.otherwise(unmet(source.expect))


def unmet(condition: str) -> Column:
    """A sentence where the condition is not true, null where it is."""
    met = F.coalesce(F.expr(condition), F.lit(False))
    return F.when(~met, F.lit(f"not met: {condition}"))


def _place() -> Column:
    meta = [F.col(f"{META}.{name}").cast("string") for name in ("partition", "offset")]
    return F.concat(F.col(f"{META}.topic"), F.lit("["), meta[0], F.lit("]@"), meta[1])


def dead_letters(bad: DataFrame, step: str, payload: Column) -> DataFrame:
    """Refused records as messages: the payload as it was, the reason in the headers."""
    headers = F.create_map(
        F.lit("error"),
        F.col(PROBLEM),
        F.lit("step"),
        F.lit(step),
        F.lit("source"),
        F.col(f"{META}.topic"),
        F.lit("offset"),
        F.concat_ws(":", F.col(f"{META}.partition"), F.col(f"{META}.offset")),
    )
    return bad.select(payload.alias("payload"), headers.alias("headers"), *lineage_columns())


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


def output_of(
    spark: SparkSession, pipeline: Pipeline, sink: Sink, frames: PipelineFrames
) -> SinkOutput:
    if pipeline.is_bulk(sink):
        return copy_output(spark, pipeline, sink)
    frame = frames.named[sink.source]
    step = pipeline.step(sink.source)
    mode = step.output if step else "append"
    if sink.topic is not None:
        rows, options = messages_of(pipeline, sink, frame)
        return SinkOutput(sink.name, rows, "borzoi", options, mode=mode, topic=sink.topic)
    if sink.lake is not None:
        rows = frame.drop(META)
        return SinkOutput(sink.name, rows, "borzoi-lake", table_options(sink.lake), mode=mode)
    return SinkOutput(sink.name, frame, "console", {"truncate": "false"}, mode=mode)


def copy_output(spark: SparkSession, pipeline: Pipeline, sink: Sink) -> SinkOutput:
    """A copy: the query reads ranges, the sink reads the messages."""
    source = pipeline.sources[sink.source]
    options = reader_options(pipeline, source)
    if sink.topic is not None and not set(options) & set(CUTTING):
        options["keepOrder"] = "true"
    consumer = source.options.get("consumerName", f"spark-{pipeline.name}")
    reading = options | {"plane": "bulk", "consumerName": consumer}
    ranges = spark.readStream.format("borzoi").options(**reading).load()
    ranges = ranges.observe(
        f"{BYTES_METRIC}_{source.name}",
        F.sum("bytes").alias("bytes"),
        F.sum(F.col("end") - F.col("start")).alias("messages"),
    )
    if sink.lake is not None:
        written = options | table_options(sink.lake)
        return SinkOutput(sink.name, ranges, "borzoi-lake", written, "bulk")
    assert sink.topic is not None
    written = options | {"topic": sink.topic} | dict(sink.options)
    return SinkOutput(sink.name, ranges, "borzoi", written, "bulk", topic=sink.topic)


def table_options(lake: Lake) -> dict[str, str]:
    options = {
        "table": lake.kind,
        "directory": lake.directory,
        "targetFileSize": lake.target_file_size,
    }
    if lake.partition_by:
        options["partitionBy"] = ",".join(lake.partition_by)
    return options if lake.name is None else options | {"name": lake.name}


def messages_of(
    pipeline: Pipeline, sink: Sink, frame: DataFrame
) -> tuple[DataFrame, dict[str, str]]:
    """Rows as messages: a column `payload` as it is, or all columns as JSON; and the options."""
    assert sink.topic is not None
    names = frame.columns
    options: dict[str, str] = dict(pipeline.server) | {"topic": sink.topic} | dict(sink.options)
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
    return frame.select(*columns), options


def dead_letter_output(pipeline: Pipeline, rejects: list[DataFrame]) -> SinkOutput:
    assert pipeline.dead_letter is not None
    frame = rejects[0]
    for other in rejects[1:]:
        frame = frame.unionByName(other)
    options = dict(pipeline.server) | {"topic": pipeline.dead_letter, "createPartitions": "1"}
    return SinkOutput(DEAD_LETTERS, frame, "borzoi", options, topic=pipeline.dead_letter)


def _flow(pipeline: Pipeline, output: SinkOutput) -> Flow:
    checkpoint = str(pipeline.checkpoint / output.name)
    writer = output.frame.writeStream.format(output.format).options(**output.options)
    writer = writer.outputMode(output.mode).option("checkpointLocation", checkpoint)
    writer = _triggered(writer.queryName(f"{pipeline.name}-{output.name}"), pipeline.trigger)
    return Flow(output.name, writer, checkpoint, output.plane, output.topic)


def _triggered(writer: DataStreamWriter, trigger: str) -> DataStreamWriter:
    if trigger in ("once", "available-now"):
        return writer.trigger(availableNow=True)
    if trigger == "continuous":
        return writer.trigger(processingTime="0 seconds")
    return writer.trigger(processingTime=_spark_duration(trigger))


def _spark_duration(text: str) -> str:
    """Return the span as Spark parses it, with full unit names."""
    return f"{max(1, parse_duration(text) // 1000)} milliseconds"
