"""The names of the formats."""

from borzoi.spark.lake.kinds import KINDS


def test_each_format_has_a_module() -> None:
    from importlib import import_module

    assert all(import_module(f"borzoi.spark.lake.{kind}") for kind in KINDS)
