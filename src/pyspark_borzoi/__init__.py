"""Lets Spark find `format("borzoi")` by itself: it looks for modules named `pyspark_*`.

Sessions that borzoi did not make get the source without filter push-down, because a reader that
offers it fails where the session has not switched it on; `borzoi.spark.register(spark)` does both.
"""

from borzoi.spark.source import PlainBorzoiDataSource


class DefaultSource(PlainBorzoiDataSource):
    """What Spark registers."""
