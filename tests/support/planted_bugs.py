"""Bugs in the core for the rest of a test; `tests/consensus/conftest.py` takes them out again."""

from contextlib import ExitStack

from borzoi.simulator.planting import plant

_PLANTED = ExitStack()


def plant_bugs(**bugs: bool) -> None:
    """From now on the core has exactly the bugs that are true here."""
    _PLANTED.close()
    _PLANTED.enter_context(plant(*(name for name, is_planted in bugs.items() if is_planted)))
