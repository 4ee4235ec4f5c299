"""The process that workers are forked from."""

from tests.support.interpreter import run_python

LOADED = """
import sys
import borzoi.spark.daemon
wanted = ("borzoi.spark.source", "borzoi.spark.lake.sink", "pyarrow", "numpy", "pyspark.worker")
print([name for name in wanted if name not in sys.modules])
"""


def test_everything_a_worker_needs_is_imported_before_it_is_forked() -> None:
    done = run_python("-c", LOADED, check=True)
    assert done.stdout == "[]\n"
