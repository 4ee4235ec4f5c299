"""The tests of what the accelerator does are run twice: with it, and in Python alone."""

from collections.abc import Iterator

import pytest
from tests.support.accelerators import both_ways, without_accelerator

__all__ = ["both_ways"]


@pytest.fixture(scope="module")
def in_python() -> Iterator[None]:
    with without_accelerator():
        yield
