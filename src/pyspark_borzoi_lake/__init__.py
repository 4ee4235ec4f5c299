"""Lets Spark find `format("borzoi-lake")` by itself: it looks for modules named `pyspark_*`."""

from borzoi.spark.lake.sink import LakeDataSource


class DefaultSource(LakeDataSource):
    """What Spark registers."""
