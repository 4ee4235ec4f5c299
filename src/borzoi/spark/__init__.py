"""Topics as DataFrames and DataFrames as topics: the Spark connector, lake sinks and pipelines.

Used by Spark (through `pyspark.sql.datasource`) and by `borzoi pipeline` and `borzoi job`; uses the
client for everything that needs a server, and `records`, which decodes segments and polled messages
into Arrow columns. Planning is pure and separate from the classes that Spark calls: `options`,
`offsets`, `plan`, `ids` and `reconcile` import neither pyspark nor Java. Server internals do not
belong here: a segment is read by the layout that docs/storage-format.md publishes.

    >>> import borzoi.spark
    >>> spark = borzoi.spark.session()                             # doctest: +SKIP
    >>> spark.read.format("borzoi").option("subscribe", "shop/orders").load()   # doctest: +SKIP
"""

from borzoi.spark.session import register, session

__all__ = ["register", "session"]
