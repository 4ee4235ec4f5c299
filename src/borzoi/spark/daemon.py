"""The process that Spark forks the Python workers of tasks from, with the connector imported.

An import of the connector takes 0.3 CPU seconds, more than a short task; a worker that is forked
from here has it at once. `spark.python.daemon.module` names this module in the sessions that
`borzoi.spark` makes. The processes that plan and commit start from Spark's own daemon all the same.
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
