"""The tests of what the accelerator does are run twice: with it, and in Python alone."""

from collections.abc import Iterator

import pytest
from tests.support.accelerators import needs_accelerator, without_accelerator


@pytest.fixture(scope="module")
def in_python() -> Iterator[None]:
    with without_accelerator():
        yield


@pytest.fixture(
    scope="module", params=[pytest.param("accelerated", marks=needs_accelerator), "in Python"]
)
def both_ways(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param == "accelerated":
        yield
    else:
        with without_accelerator():
            yield
