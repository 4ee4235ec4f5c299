"""A program that copies a topic into two others and into three tables, and may die any time.

One topic is written on the row plane, the other one on the bulk plane.

Run as ``python -m tests.spark.victim SERVERS SOURCE TARGET FOLDER DATA LIMIT``. It prints the
process id of its JVM when the queries run.
"""

import sys
from pathlib import Path

from borzoi.spark.session import session


def main(servers: str, source: str, target: str, folder: Path, data: str, limit: str) -> None:
    spark = session("victim", cores=2, settings={"spark.driver.memory": "1g"})
    spark.sparkContext.setLogLevel("OFF")
    queries = []
    for kind in ("topic", "bulk", "parquet", "delta", "iceberg"):
        reader = {
            "servers": servers,
            "subscribe": source,
            "maxOffsetsPerTrigger": limit,
            "dataDirectory": data,
        }
        if kind == "bulk":
            reader |= {"plane": "bulk", "keepOrder": "true"}
        frame = spark.readStream.format("borzoi").options(**reader).load()
        if kind == "topic":
            writer = frame.writeStream.format("borzoi").options(servers=servers, topic=target)
        elif kind == "bulk":
            writer = frame.writeStream.format("borzoi").options(**reader, topic=f"{target}-bulk")
        else:
            directory = str(folder / kind)
            writer = frame.writeStream.format("borzoi-lake").options(
                table=kind, directory=directory
            )
        writer = writer.option("checkpointLocation", str(folder / f"checkpoint-{kind}"))
        queries.append(writer.trigger(availableNow=True).start())
    process = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    print(f"jvm {process.pid}", flush=True)
    for query in queries:
        query.awaitTermination()
    spark.stop()
    print("finished", flush=True)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(arguments[0], arguments[1], arguments[2], Path(arguments[3]), arguments[4], arguments[5])
