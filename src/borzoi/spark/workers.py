"""Python workers of Spark: processes that run one task after another.

pyspark collects garbage after every task. With everything that a worker has imported, one
collection takes 80 ms or more, which is more than reading 100 MiB. `settle` exempts the
objects that exist when the first task starts from all later collections.
"""

import gc
import os

from pyspark import TaskContext

_settled_process: int | None = None


def settle() -> None:
    """Exempt the modules of a worker from collection; once per worker, and only in workers."""
    global _settled_process
    if _settled_process == os.getpid() or TaskContext.get() is None:
        return
    _settled_process = os.getpid()
    gc.collect()
    gc.freeze()
