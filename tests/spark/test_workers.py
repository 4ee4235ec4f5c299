"""Workers of Spark."""

import gc
import sys
from types import SimpleNamespace

import pytest

from borzoi.spark import workers


def test_only_workers_are_settled_and_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_settled_process", None)
    frozen = gc.get_freeze_count()
    workers.settle()
    assert gc.get_freeze_count() == frozen, "this is no worker"
    daemon = SimpleNamespace(__spec__=SimpleNamespace(name="pyspark.daemon"))
    monkeypatch.setitem(sys.modules, "__main__", daemon)
    try:
        workers.settle()
        assert gc.get_freeze_count() > frozen
        gc.unfreeze()
        workers.settle()
        assert gc.get_freeze_count() == 0
    finally:
        gc.unfreeze()
