"""A pipeline as values: sources, tables, steps and sinks.

`reading.py` reads them from TOML and `checking.py` checks them, both without Spark.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from borzoi.model.errors import BorzoiError

#: How a copy can make ids without looking at columns.
COPIED_IDS: Final = ("auto", "lineage", "column", "none")


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
