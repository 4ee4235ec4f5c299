"""Fixtures that several modules use."""

from tests.support.shard_stage import stage

__all__ = ["stage"]
