"""The same scans by executors that are processes of their own."""

import json
from pathlib import Path

import pytest
from tests.support.interpreter import run_python
from tests.support.segment_files import write_segment

from borzoi.records.message import Message
from borzoi.spark.clusters import start, stop
from borzoi.spark.segments import partition_directory

PATIENCE_SECONDS = 240
#: With `withheld` the classes reach the driver, but no executor.
PROGRAM = """
import json, sys
from pathlib import Path

import borzoi.spark.jvm.install as installing
from borzoi.spark.session import session

master, data, given = sys.argv[1:]


def only_here(spark):
    loader = spark._jsparkSession.sharedState().jarClassLoader()
    jar = Path(spark.sparkContext._temp_dir) / "here.jar"
    installing.write_jar(jar, installing._compiled(spark, loader))
    loader.addURL(spark.sparkContext._jvm.java.io.File(f"{jar}").toURI().toURL())
    return loader.loadClass(installing.RULE)


if given == "withheld":
    installing._rule_class = only_here
spark = session("cluster", master=master)
options = {"subscribe": "0/0", "segments": "direct-only", "dataDirectory": data}
frame = spark.read.format("borzoi").options(**options).load()
is_columnar = "ColumnarToRow" in frame._jdf.queryExecution().executedPlan().toString()
payloads = [row.payload.decode() for row in frame.orderBy("offset").collect()]
print(json.dumps({"is_columnar": is_columnar, "payloads": payloads}))
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("given", ["given", "withheld"])
def test_executors_get_the_classes_or_python_reads(tmp_path: Path, given: str) -> None:
    data = tmp_path / "data"
    messages = [Message(b"%d" % n) for n in range(500)]
    write_segment(partition_directory(data, 0, 0, 0), 0, [messages])
    cluster = start(tmp_path / "cluster", cores=1)
    try:
        arguments = (cluster.master, str(data), given)
        done = run_python("-c", PROGRAM, *arguments, timeout=PATIENCE_SECONDS)
    finally:
        stop(tmp_path / "cluster")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["is_columnar"] == (given == "given")
    assert found["payloads"] == [f"{n}" for n in range(500)]
    has_said_so = "an executor cannot load the scan" in done.stderr
    assert has_said_so == (given == "withheld")
