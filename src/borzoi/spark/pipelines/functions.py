"""Pipelines in Python, for what SQL cannot express: functions as sources, steps and sinks.

    from borzoi.spark.pipelines.functions import Definition

    define = Definition("orders", checkpoint="checkpoints/orders", trigger="5s")

    @define.source
    def orders():
        return {"subscribe": "shop/orders", "start": "earliest"}

    @define.step(inputs=["orders"])
    def large(orders):
        return orders.filter("length(payload) > 1000")

    @define.sink(source="large")
    def lake():
        return {"table": {"delta": "lake/large"}}

The dictionaries have the keys of the sections of a TOML file.
"""

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from borzoi.spark.pipelines.model import InvalidPipeline, Pipeline, Step
from borzoi.spark.pipelines.reading import pipeline_of

Section = Callable[[], Mapping[str, Any]]


class Definition:
    """Collects the functions of a file and builds a pipeline from them."""

    def __init__(
        self,
        name: str,
        *,
        server: Mapping[str, Any] | None = None,
        tables: Mapping[str, Mapping[str, Any]] | None = None,
        dead_letter: str | None = None,
        **head: Any,
    ) -> None:
        self._head = {"name": name} | head
        self._server = dict(server or {})
        self._tables = {key: dict(table) for key, table in (tables or {}).items()}
        self._dead_letter = {} if dead_letter is None else {"dead_letter": {"topic": dead_letter}}
        self._sources: dict[str, Section] = {}
        self._sinks: dict[str, tuple[str, Section]] = {}
        self._steps: list[Step] = []

    def source(self, function: Section) -> Section:
        """Register a function without arguments that returns the keys of [source.NAME]."""
        self._sources[function.__name__] = function
        return function

    def step(
        self,
        *,
        inputs: Sequence[str],
        output: str = "append",
        expect: str | None = None,
        on_error: str | None = None,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register a function from the data frames of its inputs to one."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self._steps.append(
                Step(
                    function.__name__,
                    tuple(inputs),
                    function=function,
                    output=output,
                    expect=expect,
                    on_error=on_error,
                )
            )
            return function

        return register

    def sink(self, *, source: str) -> Callable[[Section], Section]:
        """Register a function without arguments that returns the keys of [sink.NAME] but `from`."""

        def register(function: Section) -> Section:
            self._sinks[function.__name__] = (source, function)
            return function

        return register

    def pipeline(self, base: Path) -> Pipeline:
        """The pipeline; paths are relative to `base`."""
        document = {
            "pipeline": self._head,
            "server": self._server,
            "source": {name: dict(make()) for name, make in self._sources.items()},
            # Checked as a file is; the functions take the place of the queries afterwards.
            "step": [_checked_part(each) for each in self._steps],
            "table": self._tables,
            "sink": {
                name: {"from": source} | dict(make())
                for name, (source, make) in self._sinks.items()
            },
        } | self._dead_letter
        return replace(pipeline_of(document, base), steps=list(self._steps))


def _checked_part(step: Step) -> dict[str, Any]:
    """A step as a section of a file, without the query."""
    section = {"name": step.name, "from": list(step.inputs), "sql": "", "output": step.output}
    given = {"expect": step.expect, "on_error": step.on_error}
    return section | {key: value for key, value in given.items() if value is not None}


def load_python(path: Path) -> Pipeline:
    """The pipeline of the `Definition` in a Python file."""
    spec = importlib.util.spec_from_file_location("borzoi_pipeline", path)
    if spec is None or spec.loader is None or not path.exists():
        raise InvalidPipeline(f"cannot read {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = [each for each in vars(module).values() if isinstance(each, Definition)]
    if len(found) != 1:
        raise InvalidPipeline(f"{path} has {len(found)} Definitions; one is needed")
    return found[0].pipeline(path.resolve().parent)
