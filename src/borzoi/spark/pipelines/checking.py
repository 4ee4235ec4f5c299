"""Whether the parts of a pipeline fit together."""

import difflib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from borzoi.model.errors import BorzoiError
from borzoi.spark.option_values import topic_name
from borzoi.spark.options import InvalidOption, source_options
from borzoi.spark.pipelines.model import InvalidPipeline, Pipeline, Sink, Step


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
            check_value("topic", topic, topic_name, "stream/topic")
    return pipeline


def _check_output(sink: Sink, step: Step | None) -> None:
    """Raise for an output mode that would be refused when the query starts.

    Rows cannot be updated. With `complete` every batch has the whole result: a topic publishes it
    once more, as topics do, but a table would hold it many times.
    """
    if step is None or step.output == "append" or sink.is_console:
        return
    if sink.topic is None:
        kind, taken = "table", "append, a topic also complete"
    elif step.output == "update":
        kind, taken = "topic", "append or complete"
    else:
        return
    raise InvalidPipeline(
        f"[[step]] {step.name} output = {step.output!r} is not possible for the {kind} of "
        f"[sink.{sink.name}]: a {kind} takes {taken}, the console all modes"
    )


def _check_errors(where: str, on_error: str | None, pipeline: Pipeline) -> None:
    if on_error == "dead_letter" and pipeline.dead_letter is None:
        raise InvalidPipeline(f"{where} has on_error = 'dead_letter', and [dead_letter] is missing")


def _reads_json(pipeline: Pipeline, step: Step) -> bool:
    read = [pipeline.sources[name] for name in step.inputs if name in pipeline.sources]
    return any(source.json is not None for source in read)


def _known_name(where: str, name: str, names: Sequence[str]) -> None:
    if name not in names:
        raise InvalidPipeline(
            f"{where} names {name!r}, which is not defined before; {hint(name, names)}"
        )


def hint(name: str, names: Sequence[str]) -> str:
    """Return the name that was probably meant, or all there are."""
    near = difflib.get_close_matches(name, names, 1)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"


def check_value(where: str, value: str, read: Callable[[str], Any], allowed: str) -> None:
    try:
        read(value)
    except BorzoiError as error:
        raise InvalidPipeline(f"{where} = {value!r} is not {allowed}") from error
