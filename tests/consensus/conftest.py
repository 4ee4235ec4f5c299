"""No planted bug outlives its test."""

from collections.abc import Iterator

import pytest
from tests.support.planted_bugs import plant_bugs


@pytest.fixture(autouse=True)
def _sound_core() -> Iterator[None]:
    yield
    plant_bugs()
