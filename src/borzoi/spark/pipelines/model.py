"""A pipeline as values: sources, tables, steps, sinks, read from TOML and checked without Spark.

Every section has a table of its keys. An unknown key is rejected with the nearest known one, every
path is relative to the file, and secrets are named by `env` or `file`, never written down.
"""

import difflib
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from borzoi.model.errors import BorzoiError
from borzoi.model.units import parse_bytes, parse_duration
from borzoi.spark.lake.kinds import KINDS
from borzoi.spark.option_values import topic_name
from borzoi.spark.options import InvalidOption, source_options

ON_ERROR: Final = ("fail", "drop", "dead_letter")
OUTPUTS: Final = ("append", "update", "complete")
#: How a copy can make ids without looking at columns.
COPIED_IDS: Final = ("auto", "lineage", "column", "none")
TABLE_FORMATS: Final = ("parquet", "csv", "json", "orc")


class InvalidPipeline(BorzoiError, ValueError):
    """A pipeline file is invalid; the message names section and key."""


@dataclass(frozen=True, slots=True)
class Watermark:
    column: str
    delay: str


@dataclass(frozen=True, slots=True)
class Source:
    """A topic that is read; `options` are those of `format("borzoi")`."""

    name: str
    options: Mapping[str, str]
    #: Columns of JSON payloads as DDL; None leaves the payload as it is.
    json: str | None = None
    #: What becomes of records that cannot be read; None leaves it to the steps.
    on_error: str | None = None
    #: A condition that every record must meet.
    expect: str | None = None
    watermark: Watermark | None = None


@dataclass(frozen=True, slots=True)
class StaticTable:
    """A table that is read once per batch, to join with."""

    name: str
    format: str
    path: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """Rows from rows: a query in SQL, or a function from data frames to one."""

    name: str
    inputs: tuple[str, ...]
    sql: str | None = None
    function: Callable[..., Any] | None = None
    watermark: Watermark | None = None
    output: str = "append"
    #: A condition that every row of the result must meet, and what becomes of the others.
    expect: str | None = None
    on_error: str | None = None


@dataclass(frozen=True, slots=True)
class Lake:
    """A table to write to."""

    kind: str
    directory: str
    partition_by: tuple[str, ...] = ()
    target_file_size: str = "128 MiB"
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Sink:
    """Where rows go: a topic, a lake table, or the console."""

    name: str
    source: str
    topic: str | None = None
    lake: Lake | None = None
    is_console: bool = False
    key: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A whole pipeline file."""

    name: str
    checkpoint: Path
    trigger: str
    server: Mapping[str, str]
    sources: Mapping[str, Source]
    tables: Mapping[str, StaticTable]
    steps: Sequence[Step]
    sinks: Mapping[str, Sink]
    dead_letter: str | None = None

    def step(self, name: str) -> Step | None:
        return next((each for each in self.steps if each.name == name), None)

    def is_bulk(self, sink: Sink) -> bool:
        """Whether nothing but copying is asked for: messages need not pass through the JVM then."""
        source = self.sources.get(sink.source)
        if source is None or source.json is not None:
            return False
        if sink.lake is not None:
            return True
        is_whole = "columns" not in source.options and source.options.get("headers", "raw") == "raw"
        way = sink.options.get("idempotence", "auto")
        return sink.topic is not None and sink.key is None and is_whole and way in COPIED_IDS


# ---- reading ------------------------------------------------------------------------------------


def load_pipeline(path: Path) -> Pipeline:
    """Read the pipeline of a TOML file."""
    try:
        document = tomllib.loads(path.read_text())
    except OSError as error:
        raise InvalidPipeline(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidPipeline(f"{path} is not TOML: {error}") from error
    return pipeline_of(document, path.resolve().parent)


def pipeline_of(document: Mapping[str, Any], base: Path) -> Pipeline:
    """The pipeline of a document whose paths are relative to `base`."""
    known = ("pipeline", "server", "source", "table", "step", "sink", "dead_letter")
    _known_keys("the file", document, known)
    head = _section(document, "pipeline", ("name", "checkpoint", "trigger"))
    name = _required(head, "[pipeline]", "name")
    server = server_options(document.get("server", {}), base)
    dead_letter = _section(document, "dead_letter", ("topic",), is_optional=True).get("topic")
    pipeline = Pipeline(
        name=name,
        checkpoint=base / head.get("checkpoint", f"checkpoints/{name}"),
        trigger=_trigger(head.get("trigger", "available-now")),
        server=server,
        sources={n: _source(n, s, base) for n, s in _named(document, "source")},
        tables={n: _table(n, s, base) for n, s in _named(document, "table")},
        steps=[_step(number, each) for number, each in enumerate(document.get("step", []))],
        sinks={n: _sink(n, s, base) for n, s in _named(document, "sink")},
        dead_letter=dead_letter,
    )
    return check_pipeline(with_inherited_errors(pipeline))


def with_inherited_errors(pipeline: Pipeline) -> Pipeline:
    """Sources that do not say what becomes of bad records do what the steps that read them say."""
    sources = {}
    for name, source in pipeline.sources.items():
        said = {s.on_error for s in pipeline.steps if name in s.inputs and s.on_error is not None}
        if source.on_error is None and len(said) > 1:
            raise InvalidPipeline(
                f"[source.{name}] on_error is missing, and its steps do not agree: "
                + " and ".join(sorted(said))
            )
        chosen = source.on_error or next(iter(said), "fail")
        sources[name] = replace(source, on_error=chosen)
    return replace(pipeline, sources=sources)


def check_pipeline(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline if its parts are consistent."""
    if not pipeline.sources or not pipeline.sinks:
        raise InvalidPipeline("a pipeline needs at least one [source.NAME] and one [sink.NAME]")
    names = list(pipeline.sources) + list(pipeline.tables)
    for step in pipeline.steps:
        if step.name in names:
            raise InvalidPipeline(f"the name {step.name!r} is used twice")
        for each in step.inputs:
            _known_name(f"[[step]] {step.name}: from", each, names)
        names.append(step.name)
        _check_errors(f"[[step]] {step.name}", step.on_error, pipeline)
        if step.on_error is not None and step.expect is None and not _reads_json(pipeline, step):
            raise InvalidPipeline(f"[[step]] {step.name} on_error needs expect, or a JSON source")
    for sink in pipeline.sinks.values():
        _known_name(f"[sink.{sink.name}]: from", sink.source, names)
        _check_output(sink, pipeline.step(sink.source))
    for source in pipeline.sources.values():
        _check_errors(f"[source.{source.name}]", source.on_error, pipeline)
        if source.expect is not None and source.json is None:
            raise InvalidPipeline(f"[source.{source.name}] expect needs a format with json")
        try:
            source_options(dict(source.options) | dict(pipeline.server))
        except InvalidOption as error:
            raise InvalidPipeline(f"[source.{source.name}]: {error}") from error
    for topic in [pipeline.dead_letter, *(sink.topic for sink in pipeline.sinks.values())]:
        if topic is not None:
            _checked("topic", topic, topic_name, "stream/topic")
    return pipeline


def _check_output(sink: Sink, step: Step | None) -> None:
    """Raise for an output mode that Spark would refuse when the query starts.

    Sinks in Python can append, or get the whole result of every batch. They cannot update rows.
    """
    if step is not None and step.output == "update" and not sink.is_console:
        kind = "topic" if sink.topic is not None else "table"
        raise InvalidPipeline(
            f"[[step]] {step.name} output = 'update' is not possible for the {kind} of "
            f"[sink.{sink.name}]: a {kind} takes append or complete, the console also update"
        )


def _check_errors(where: str, on_error: str | None, pipeline: Pipeline) -> None:
    if on_error == "dead_letter" and pipeline.dead_letter is None:
        raise InvalidPipeline(f"{where} has on_error = 'dead_letter', and [dead_letter] is missing")


def _reads_json(pipeline: Pipeline, step: Step) -> bool:
    read = [pipeline.sources[name] for name in step.inputs if name in pipeline.sources]
    return any(source.json is not None for source in read)


def server_options(section: Mapping[str, Any], base: Path) -> dict[str, str]:
    """`[server]` as options of the connector."""
    _known_keys("[server]", section, ("address", "username", "password", "token"))
    options = {"servers": str(section.get("address", "127.0.0.1:8090"))}
    if "username" in section:
        options["username"] = str(section["username"])
    for key in ("password", "token"):
        if key in section:
            reference = section[key]
            if not isinstance(reference, dict) or len(reference) != 1:
                raise InvalidPipeline(
                    f"[server] {key} must name where the secret is: "
                    f'{{ env = "VARIABLE" }} or {{ file = "PATH" }}'
                )
            _known_keys(f"[server] {key}", reference, ("env", "file"))
            ((kind, value),) = reference.items()
            suffix = "Env" if kind == "env" else "File"
            options[f"{key}{suffix}"] = str(value if kind == "env" else base / value)
    return options


#: Keys of [source.NAME] that are options under another name.
SOURCE_KEYS: Final = {
    "subscribe": "subscribe",
    "pattern": "subscribePattern",
    "assign": "assign",
    "max_bytes_per_trigger": "maxBytesPerTrigger",
    "max_offsets_per_trigger": "maxOffsetsPerTrigger",
    "min_offsets_per_trigger": "minOffsetsPerTrigger",
    "max_trigger_delay": "maxTriggerDelay",
    "max_bytes_per_partition": "maxBytesPerPartition",
    "max_records_per_partition": "maxRecordsPerPartition",
    "min_partitions": "minPartitions",
    "keep_order": "keepOrder",
    "fail_on_data_loss": "failOnDataLoss",
    "headers": "headers",
    "columns": "columns",
    "segments": "segments",
    "data_directory": "dataDirectory",
    "max_poll_bytes": "maxPollBytes",
    "verify": "verify",
    "consumer": "consumerName",
}
OTHER_SOURCE_KEYS: Final = ("start", "end", "format", "on_error", "expect", "watermark")


def _source(name: str, section: Mapping[str, Any], base: Path) -> Source:
    where = f"[source.{name}]"
    _known_keys(where, section, (*SOURCE_KEYS, *OTHER_SOURCE_KEYS))
    options = {}
    for key, option in SOURCE_KEYS.items():
        if key in section:
            options[option] = _option_text(section[key])
    if "data_directory" in section:
        options["dataDirectory"] = str(base / section["data_directory"])
    if "start" not in section:
        raise InvalidPipeline(
            f"{where} start is missing: earliest, latest, a time, a span such as -2h, or offsets"
        )
    for key, side in (("start", "starting"), ("end", "ending")):
        if key in section:
            options |= _bound_options(section[key], side)
    json, text = _format(where, section.get("format", "binary"))
    if text:
        options["payloadFormat"] = "string"
    return Source(
        name,
        options,
        json,
        _on_error(where, section),
        section.get("expect"),
        _watermark(where, section.get("watermark")),
    )


def _on_error(where: str, section: Mapping[str, Any]) -> str | None:
    if "on_error" not in section:
        return None
    return _word(where, "on_error", section["on_error"], ON_ERROR)


def _bound_options(value: Any, side: str) -> dict[str, str]:
    if isinstance(value, dict):
        return {f"{side}Offsets": _option_text(value)}
    text = value.isoformat() if hasattr(value, "isoformat") else str(value)
    key = "Offsets" if text in ("earliest", "latest") else "Timestamp"
    return {f"{side}{key}": text}


def _option_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        inner = ", ".join(f'"{key}": {_option_text(each)}' for key, each in value.items())
        return f"{{{inner}}}"
    if isinstance(value, list):
        is_numbers = all(isinstance(each, int) for each in value)
        return str(value) if is_numbers else ",".join(map(str, value))
    return str(value)


def _format(where: str, value: Any) -> tuple[str | None, bool]:
    """Columns of JSON payloads, and whether payloads are text."""
    if isinstance(value, dict) and set(value) == {"json"}:
        return str(value["json"]), False
    return None, _word(where, "format", value, ("binary", "string")) == "string"


def _table(name: str, section: Mapping[str, Any], base: Path) -> StaticTable:
    where = f"[table.{name}]"
    _known_keys(where, section, (*TABLE_FORMATS, "options"))
    formats = [each for each in TABLE_FORMATS if each in section]
    if len(formats) != 1:
        raise InvalidPipeline(f"{where} needs exactly one of {', '.join(TABLE_FORMATS)}")
    options = {key: _option_text(each) for key, each in section.get("options", {}).items()}
    return StaticTable(name, formats[0], str(base / section[formats[0]]), options)


def _step(number: int, section: Mapping[str, Any]) -> Step:
    where = f"[[step]] number {number + 1}"
    keys = ("name", "from", "sql", "watermark", "output", "expect", "on_error")
    _known_keys(where, section, keys)
    inputs = _required(section, where, "from")
    return Step(
        _required(section, where, "name"),
        tuple(inputs) if isinstance(inputs, list) else (inputs,),
        _required(section, where, "sql"),
        None,
        _watermark(where, section.get("watermark")),
        _word(where, "output", section.get("output", "append"), OUTPUTS),
        section.get("expect"),
        _on_error(where, section),
    )


def _watermark(where: str, section: Mapping[str, Any] | None) -> Watermark | None:
    if section is None:
        return None
    _known_keys(f"{where} watermark", section, ("column", "delay"))
    return Watermark(_required(section, where, "column"), _required(section, where, "delay"))


#: Keys of [sink.NAME] that are options of the topic sink under another name.
SINK_KEYS: Final = {
    "idempotence": "idempotence",
    "create_partitions": "createPartitions",
    "batch_bytes": "batchBytes",
}


def _sink(name: str, section: Mapping[str, Any], base: Path) -> Sink:
    where = f"[sink.{name}]"
    _known_keys(where, section, ("from", "topic", "table", "console", "key", *SINK_KEYS))
    targets = [key for key in ("topic", "table", "console") if key in section]
    if len(targets) != 1:
        raise InvalidPipeline(f"{where} needs exactly one of topic, table and console")
    options = {SINK_KEYS[key]: _option_text(section[key]) for key in SINK_KEYS if key in section}
    return Sink(
        name,
        _required(section, where, "from"),
        section.get("topic"),
        _lake(where, section["table"], base) if "table" in section else None,
        bool(section.get("console", False)),
        section.get("key"),
        options,
    )


def _lake(where: str, section: Mapping[str, Any], base: Path) -> Lake:
    where = f"{where} table"
    _known_keys(where, section, (*KINDS, "partition_by", "target_file_size", "name"))
    kinds = [each for each in KINDS if each in section]
    if len(kinds) != 1:
        raise InvalidPipeline(f"{where} needs exactly one of {', '.join(KINDS)}")
    size = str(section.get("target_file_size", "128 MiB"))
    _checked(f"{where} target_file_size", size, parse_bytes, "a size such as 128 MiB")
    return Lake(
        kinds[0],
        str(base / section[kinds[0]]),
        tuple(section.get("partition_by", ())),
        size,
        section.get("name"),
    )


def _trigger(value: Any) -> str:
    text = str(value)
    if text in ("once", "available-now", "continuous"):
        return text
    allowed = "once, available-now, continuous, or a span such as 5s"
    _checked("[pipeline] trigger", text, parse_duration, allowed)
    return text


# ---- checks -------------------------------------------------------------------------------------


def _section(
    document: Mapping[str, Any], name: str, keys: Sequence[str], *, is_optional: bool = False
) -> Mapping[str, Any]:
    if name not in document:
        if is_optional:
            return {}
        raise InvalidPipeline(f"the section [{name}] is missing")
    section: Mapping[str, Any] = document[name]
    _known_keys(f"[{name}]", section, keys)
    return section


def _named(document: Mapping[str, Any], kind: str) -> list[tuple[str, Mapping[str, Any]]]:
    sections = document.get(kind, {})
    if not isinstance(sections, dict) or not all(isinstance(s, dict) for s in sections.values()):
        raise InvalidPipeline(f"[{kind}] needs a name: [{kind}.NAME]")
    return list(sections.items())


def _known_keys(where: str, section: Mapping[str, Any], keys: Sequence[str]) -> None:
    if not isinstance(section, Mapping):
        raise InvalidPipeline(f"{where} must be a table of keys, not {section!r}")
    for key in section:
        if key not in keys:
            near = difflib.get_close_matches(key, keys, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(keys)}"
            raise InvalidPipeline(f"{where} has no key {key!r}; {hint}")


def _known_name(where: str, name: str, names: Sequence[str]) -> None:
    if name not in names:
        near = difflib.get_close_matches(name, names, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
        raise InvalidPipeline(f"{where} names {name!r}, which is not defined before; {hint}")


def _required(section: Mapping[str, Any], where: str, key: str) -> Any:
    if key not in section:
        raise InvalidPipeline(f"{where} {key} is missing")
    return section[key]


def _word(where: str, key: str, value: Any, words: Sequence[str]) -> str:
    if value not in words:
        raise InvalidPipeline(f"{where} {key} = {value!r} is not one of {', '.join(words)}")
    return str(value)


def _checked(where: str, value: str, read: Callable[[str], Any], allowed: str) -> None:
    try:
        read(value)
    except BorzoiError as error:
        raise InvalidPipeline(f"{where} = {value!r} is not {allowed}") from error
