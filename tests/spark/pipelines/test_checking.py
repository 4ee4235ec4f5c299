"""Parts of a pipeline that do not fit together."""

from pathlib import Path
from typing import Any

import pytest
from tests.spark.pipelines.documents import changed, document

from borzoi.spark.pipelines.model import InvalidPipeline
from borzoi.spark.pipelines.reading import pipeline_of

TOPIC = {"topic": "a/c"}
TABLE = {"table": {"delta": "x"}}


@pytest.mark.parametrize(
    ("sink", "kind", "taken", "output"),
    [
        (TOPIC, "topic", "append or complete", "update"),
        (TABLE, "table", "append, a topic also complete", "update"),
        (TABLE, "table", "append, a topic also complete", "complete"),
    ],
)
def test_tables_are_appended_to_and_topics_are_not_updated(
    sink: dict[str, Any], kind: str, taken: str, output: str
) -> None:
    said = changed("step.0.output", output)
    said["sink"] = {"shown": {"from": "clean", "console": True}}
    assert pipeline_of(said, Path()).steps[0].output == output
    said["sink"]["out"] = {"from": "clean"} | sink
    with pytest.raises(InvalidPipeline) as raised:
        pipeline_of(said, Path())
    assert str(raised.value) == (
        f"[[step]] clean output = {output!r} is not possible for the {kind} of [sink.out]: "
        f"a {kind} takes {taken}, the console all modes"
    )
    said["step"][0]["output"] = "append"
    assert list(pipeline_of(said, Path()).sinks) == ["shown", "out"]
    later = {"name": "later", "from": "clean", "sql": "select 1"}
    said["step"] = [said["step"][0] | {"output": output}, later]
    said["sink"]["out"]["from"] = "later"
    assert pipeline_of(said, Path()).steps[1].output == "append", "the step before a sink counts"


def test_a_topic_takes_the_whole_result_of_every_batch() -> None:
    said = changed("step.0.output", "complete")
    said["sink"] = {"out": {"from": "clean"} | TOPIC}
    assert pipeline_of(said, Path()).steps[0].output == "complete"


def test_steps_say_what_becomes_of_bad_records_when_the_source_does_not() -> None:
    said = changed("source.orders.on_error", None)
    said["step"][0]["on_error"] = "drop"
    assert pipeline_of(said, Path()).sources["orders"].on_error == "drop"
    del said["step"][0]["on_error"]
    assert pipeline_of(said, Path()).sources["orders"].on_error == "fail"
    other = {"name": "other", "from": "orders", "sql": "select 1", "on_error": "fail"}
    said["step"] = [said["step"][0] | {"on_error": "drop"}, other]
    with pytest.raises(InvalidPipeline, match="steps do not agree: drop and fail"):
        pipeline_of(said, Path())
    later = {"name": "later", "from": "clean", "sql": "select 1", "on_error": "drop"}
    said["step"] = [document()["step"][0], later]
    with pytest.raises(InvalidPipeline, match="later on_error needs expect"):
        pipeline_of(said, Path())
    later["expect"] = "id > 0"
    assert pipeline_of(said, Path()).steps[1].expect == "id > 0"
