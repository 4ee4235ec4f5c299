"""What a pipeline would read and what it has read, without starting Spark.

The offset log of a checkpoint is a folder of files named by batch, each with a line `v1`, a line of
metadata and a line of JSON for each source; the commit log has a file for each completed batch.
"""

import json
import shutil
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from borzoi.spark.locating import Locator
from borzoi.spark.offsets import Extent, PartitionKey, Position, from_json, ranges, resolve
from borzoi.spark.options import SourceOptions, source_options
from borzoi.spark.pipelines.model import Pipeline, Sink
from borzoi.spark.source import limits_of

#: Bytes per second of one core, to estimate a backfill: docs/spark.md has the figures.
ROW_PLANE_SPEED = 400_000_000
BULK_PLANE_SPEED = 500_000_000


@dataclass(frozen=True, slots=True)
class PlannedRead:
    """What a sink would read next."""

    sink: str
    source: str
    plane: str
    messages: int
    bytes: int
    direct_splits: int
    tail_splits: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Standing:
    """The progress of the query of a sink."""

    sink: str
    batch: int | None
    committed: int | None
    lag: int | None


def plan_pipeline(pipeline: Pipeline, now: int) -> list[PlannedRead]:
    """Return what each sink would read if the pipeline started now."""
    found = []
    for sink in pipeline.sinks.values():
        for name in sources_of(pipeline, sink):
            source = pipeline.sources[name]
            is_bulk = pipeline.is_bulk(sink)
            options = source_options(dict(source.options) | dict(pipeline.server))
            with closing(Locator(options)) as locator:
                extents = locator.extents()
                begin = committed_offsets(pipeline.checkpoint / sink.name)
                if begin is None:
                    start = resolve(options.starting, extents, now=now, find_time=locator.find_time)
                    begin = {k: Position(o, extents[k].created) for k, o in start.items()}
                end = {key: Position(each.latest, each.created) for key, each in extents.items()}
                spans = ranges(begin, end, extents)
                splits = locator.plan(
                    spans, limits_of(as_read(options, sink, is_bulk), is_stream=True)
                )
            size = sum(split.size for split in splits)
            speed = BULK_PLANE_SPEED if is_bulk else ROW_PLANE_SPEED
            found.append(
                PlannedRead(
                    sink.name,
                    name,
                    "bulk" if is_bulk else "row",
                    sum(span.end - span.start for span in spans),
                    size,
                    sum(not split.is_tail for split in splits),
                    sum(split.is_tail for split in splits),
                    size / speed,
                )
            )
    return found


def as_read(options: SourceOptions, sink: Sink, is_bulk: bool) -> SourceOptions:
    """The options of a source as the query of this sink reads it."""
    if not is_bulk:
        return options
    return replace(options, plane="bulk", keep_order=True if sink.topic else options.keep_order)


def sources_of(pipeline: Pipeline, sink: Sink) -> list[str]:
    """Names of the sources that a sink depends on, through its steps."""
    wanted, found = [sink.source], []
    while wanted:
        name = wanted.pop()
        if name in pipeline.sources and name not in found:
            found.append(name)
        step = pipeline.step(name)
        if step is not None:
            wanted += step.inputs
    return sorted(found)


def status_of(pipeline: Pipeline) -> list[Standing]:
    """Return the position and the lag of each query."""
    found = []
    for sink in pipeline.sinks.values():
        checkpoint = pipeline.checkpoint / sink.name
        batches = _numbers(checkpoint / "offsets")
        commits = _numbers(checkpoint / "commits")
        positions = committed_offsets(checkpoint)
        lag = None
        if positions is not None:
            lag = sum(
                max(0, each.latest - positions[key].offset)
                for key, each in _latest(pipeline, sink).items()
                if key in positions
            )
        found.append(
            Standing(
                sink.name,
                max(batches, default=None),
                max(commits, default=None),
                lag,
            )
        )
    return found


def _latest(pipeline: Pipeline, sink: Sink) -> dict[PartitionKey, Extent]:
    latest: dict[PartitionKey, Extent] = {}
    for name in sources_of(pipeline, sink):
        options = source_options(dict(pipeline.sources[name].options) | dict(pipeline.server))
        with closing(Locator(options)) as locator:
            latest.update(locator.extents())
    return latest


def committed_offsets(checkpoint: Path) -> dict[PartitionKey, Position] | None:
    """Return the positions at the end of the last completed batch; None if there is none."""
    commits = _numbers(checkpoint / "commits")
    if not commits:
        return None
    text = (checkpoint / "offsets" / str(max(commits))).read_text()
    positions: dict[PartitionKey, Position] = {}
    for line in text.splitlines()[2:]:
        document = json.loads(line) if line.startswith("{") else None
        if isinstance(document, dict) and "v" in document:
            positions.update(from_json(document))
    return positions


def reset_pipeline(pipeline: Pipeline) -> bool:
    """Delete the checkpoints; False when there were none."""
    if not pipeline.checkpoint.exists():
        return False
    shutil.rmtree(pipeline.checkpoint)
    return True


def _numbers(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return [int(path.name) for path in folder.iterdir() if path.name.isdigit()]
