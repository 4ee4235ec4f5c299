"""What a checkpoint says, and what a pipeline would read."""

import json
from pathlib import Path

from tests.spark.conftest import fill

from borzoi.spark.broker import Broker
from borzoi.spark.offsets import PartitionKey, Position, to_json
from borzoi.spark.pipelines.planning import (
    committed_offsets,
    plan_pipeline,
    sources_of,
    status_of,
)
from borzoi.spark.pipelines.reading import pipeline_of


def checkpoint(folder: Path, positions: dict[PartitionKey, Position], batch: int) -> None:
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    lines = ["v1", "{}", json.dumps(to_json(positions)), "-"]
    (folder / "offsets" / str(batch)).write_text("\n".join(lines))
    (folder / "commits" / str(batch)).write_text("v1\n{}")


def test_the_last_batch_that_ended_counts(tmp_path: Path) -> None:
    assert committed_offsets(tmp_path) is None
    for batch in (9, 10):
        checkpoint(tmp_path, {PartitionKey("a/b", 0): Position(batch, 1)}, batch)
    (tmp_path / "offsets" / "11").write_text("v1\n{}\n{}")
    assert committed_offsets(tmp_path) == {PartitionKey("a/b", 0): Position(10, 1)}


def test_plan_and_status_look_at_the_server(
    servers: str, broker: Broker, topic: str, tmp_path: Path
) -> None:
    fill(broker, topic, 0, [b"x" * 100] * 50)
    pipeline = pipeline_of(
        {
            "pipeline": {"name": "p", "checkpoint": "check"},
            "server": {"address": servers},
            "source": {"raw": {"subscribe": topic, "start": "earliest"}},
            "step": [{"name": "all", "from": "raw", "sql": "select * from raw"}],
            "sink": {
                "bulk": {"from": "raw", "table": {"parquet": "bulk"}},
                "row": {"from": "all", "console": True},
            },
        },
        tmp_path,
    )
    assert sources_of(pipeline, pipeline.sinks["row"]) == ["raw"]
    planned = {each.sink: each for each in plan_pipeline(pipeline, 0)}
    assert (planned["bulk"].plane, planned["row"].plane) == ("bulk", "row")
    assert planned["bulk"].messages == 50
    assert planned["bulk"].bytes == 50 * 164
    assert [(s.batch, s.committed, s.lag) for s in status_of(pipeline)] == [(None, None, None)] * 2
    created = broker.extents([topic])[PartitionKey(topic, 0)].created
    checkpoint(tmp_path / "check" / "bulk", {PartitionKey(topic, 0): Position(30, created)}, 4)
    standing = status_of(pipeline)[0]
    assert (standing.batch, standing.committed, standing.lag) == (4, 4, 20)
    assert {p.sink: p.messages for p in plan_pipeline(pipeline, 0)}["bulk"] == 20
