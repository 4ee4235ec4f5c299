"""A Spark session with the settings that the connector needs, and the registration of its formats.

>>> from borzoi.spark import session
>>> spark = session(master="local[2]")                     # doctest: +SKIP
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from borzoi.spark.java import find_java_home
from borzoi.spark.jvm.install import install
from borzoi.spark.lake.sink import LakeDataSource
from borzoi.spark.source import BorzoiDataSource

#: Saves two log files and two renames per micro-batch, about 100 ms, over the default class.
FAST_CHECKPOINTS: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)

STDERR: Final = 2
LOOPBACK_MASTERS: Final = ("spark://127.0.0.1", "spark://localhost")

#: Settings of every session, including those that borzoi did not create.
SETTINGS: Final[Mapping[str, str]] = {
    # Timestamps of messages are UTC.
    "spark.sql.session.timeZone": "UTC",
    # The source narrows what it reads by filters on offset, timestamp and partition.
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.streaming.checkpointFileManagerClass": FAST_CHECKPOINTS,
}

#: Settings of a session whose executors are on this machine.
LOOPBACK_SETTINGS: Final[Mapping[str, str]] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}

#: Settings of a session that is made here, not asked of a Spark Connect server.
SPARK_SETTINGS: Final[Mapping[str, str]] = {
    # Workers are forked from a process that has imported the connector.
    "spark.python.daemon.module": "borzoi.spark.daemon",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "false",
}


def session(
    name: str = "borzoi",
    *,
    master: str | None = None,
    remote: str | None = None,
    settings: Mapping[str, Any] | None = None,
    cores: int | None = None,
    log_file: Path | None = None,
) -> SparkSession:
    """A session in which `format("borzoi")` and `format("borzoi-lake")` work.

    Without `master` and `remote` Spark runs in this process, with four attempts for each task.
    `remote` is a Spark Connect address such as ``sc://host:15002``. `settings` are added to those
    the connector needs and win over them. `log_file` takes what the JVM and its workers print.
    """
    cores = cores or os.cpu_count() or 1
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    is_here = remote is None and _is_here(master) and not is_submitted
    _prepare_environment(is_here=is_here)
    chosen: dict[str, str] = dict(SETTINGS)
    if remote is not None:
        builder = SparkSession.builder.appName(name).remote(remote)
    else:
        chosen |= {**SPARK_SETTINGS, "spark.sql.shuffle.partitions": str(cores)}
        chosen |= LOOPBACK_SETTINGS if is_here else {}
        builder = SparkSession.builder.appName(name)
        if master is not None or not is_submitted:
            # spark-submit has its own --master.
            builder = builder.master(master or f"local[{cores},4]")
    for key, value in (chosen | {k: str(v) for k, v in (settings or {}).items()}).items():
        builder = builder.config(key, value)
    with _printing_to(log_file):
        spark = builder.getOrCreate()
    register(spark)
    return spark


@contextmanager
def _printing_to(log_file: Path | None) -> Iterator[None]:
    """Redirect stderr of processes started meanwhile to the file, but not our own."""
    if log_file is None:
        yield
        return
    log_file.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    kept = os.dup(STDERR)
    with log_file.open("ab") as file:
        os.dup2(file.fileno(), STDERR)
    try:
        yield
    finally:
        os.dup2(kept, STDERR)
        os.close(kept)


def register(spark: SparkSession) -> SparkSession:
    """Register the formats of borzoi in a session, and enable the settings they need."""
    for key, value in SETTINGS.items():
        if key != "spark.sql.session.timeZone":
            spark.conf.set(key, value)
    spark.dataSource.register(BorzoiDataSource)
    spark.dataSource.register(LakeDataSource)
    install(spark)
    return spark


def _is_here(master: str | None) -> bool:
    """Whether the executors are on this machine: in this process, or a cluster on loopback."""
    return master is None or master.startswith(("local", *LOOPBACK_MASTERS))


def _prepare_environment(*, is_here: bool) -> None:
    """What the JVM and the Python workers read from the environment, before either starts."""
    # Workers must be the Python that has pyarrow, not any python3 on the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if is_here:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    home = find_java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = str(home)
