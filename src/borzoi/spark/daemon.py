"""The process that Spark forks its Python workers from, with what they need imported already.

Spark starts a Python process for each step of a query (planning, tasks, commits). An import of the
connector takes 0.3 CPU seconds, more than such a step; forked from here a worker has it at once.
`spark.python.daemon.module` names this module in the sessions that `borzoi.spark` makes.
"""

import gc

# The source and the sinks came with our own package; this is what Spark's side of a worker needs.
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

if __name__ == "__main__":
    gc.collect()
    # Objects that are never collected are not written to, so that workers share their memory.
    gc.freeze()
    manager()
