"""Sinks and flows of a pipeline file, as they are declared to Spark's Declarative Pipelines."""

from pathlib import Path

import pytest

from borzoi.spark.pipelines.declarative import define
from borzoi.spark.pipelines.model import InvalidPipeline


def test_a_file_that_is_not_there_is_named_before_anything_is_defined(tmp_path: Path) -> None:
    """The rest needs a graph that Spark made: `test_outgrowing` runs it whole."""
    with pytest.raises(InvalidPipeline, match="cannot read"):
        define(tmp_path / "absent.toml")
