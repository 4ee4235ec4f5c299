"""What a pipeline knows about its sinks."""

from pathlib import Path
from typing import Any

import pytest

from borzoi.spark.pipelines.reading import pipeline_of


@pytest.mark.parametrize(
    ("source", "sink", "is_bulk"),
    [
        ({}, {"table": {"parquet": "x"}}, True),
        ({}, {"topic": "a/c"}, True),
        ({}, {"topic": "a/c", "idempotence": "column"}, True),
        ({}, {"topic": "a/c", "idempotence": "position"}, False),
        ({}, {"topic": "a/c", "key": "partition"}, False),
        ({}, {"console": True}, False),
        ({"columns": "payload"}, {"topic": "a/c"}, False),
        ({"headers": "none"}, {"topic": "a/c"}, False),
        ({"format": {"json": "id long"}}, {"table": {"parquet": "x"}}, False),
    ],
)
def test_copies_are_bulk_and_everything_else_is_rows(
    source: dict[str, Any], sink: dict[str, Any], is_bulk: bool
) -> None:
    found = pipeline_of(
        {
            "pipeline": {"name": "p"},
            "source": {"raw": {"subscribe": "a/b", "start": "earliest"} | source},
            "sink": {"out": {"from": "raw"} | sink},
        },
        Path(),
    )
    assert found.is_bulk(found.sinks["out"]) == is_bulk
