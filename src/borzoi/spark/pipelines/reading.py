"""Reads a pipeline from TOML.

Every section has a table of its keys. An unknown key is rejected with the nearest known one, every
path is relative to the file, and secrets are named by `env` or `file`, never written down.
"""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from borzoi.model.units import parse_bytes, parse_duration
from borzoi.spark.lake.kinds import KINDS
from borzoi.spark.pipelines.checking import (
    check_pipeline,
    check_value,
    hint,
    with_inherited_errors,
)
from borzoi.spark.pipelines.model import (
    InvalidPipeline,
    Lake,
    Pipeline,
    Sink,
    Source,
    StaticTable,
    Step,
    Watermark,
)

ON_ERROR: Final = ("fail", "drop", "dead_letter")
OUTPUTS: Final = ("append", "update", "complete")
TABLE_FORMATS: Final = ("parquet", "csv", "json", "orc")


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
    check_value(f"{where} target_file_size", size, parse_bytes, "a size such as 128 MiB")
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
    check_value("[pipeline] trigger", text, parse_duration, allowed)
    return text


# ---- sections and keys ---------------------------------------------------------------------------


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
            raise InvalidPipeline(f"{where} has no key {key!r}; {hint(key, keys)}")


def _required(section: Mapping[str, Any], where: str, key: str) -> Any:
    if key not in section:
        raise InvalidPipeline(f"{where} {key} is missing")
    return section[key]


def _word(where: str, key: str, value: Any, words: Sequence[str]) -> str:
    if value not in words:
        raise InvalidPipeline(f"{where} {key} = {value!r} is not one of {', '.join(words)}")
    return str(value)
