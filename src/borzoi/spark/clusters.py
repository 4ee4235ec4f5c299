"""A standalone Spark cluster on this machine: a master and a worker on loopback.

The wheel of pyspark has no scripts to start one; `spark-class` starts the same classes. A file
names the processes, so that another command can stop them.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import pyspark

from borzoi.model.errors import BorzoiError
from borzoi.spark import submitted
from borzoi.spark.java import find_java_home

MASTER: Final = "org.apache.spark.deploy.master.Master"
WORKER: Final = "org.apache.spark.deploy.worker.Worker"
START_SECONDS_MAX: Final = 90.0
STOP_SECONDS_MAX: Final = 30.0

#: Child processes; those started by another command are not children of this process.
_STARTED: dict[int, "subprocess.Popen[bytes]"] = {}


class CannotStart(BorzoiError):
    """The cluster did not come up; the log says why."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """What was started."""

    master: str
    processes: tuple[int, ...]


def start(directory: Path, *, cores: int, memory: str = "1g", port: int = 0) -> Cluster:
    """Start a master and a worker; `directory` holds their logs and the file with their ids."""
    directory.mkdir(parents=True, exist_ok=True)
    if (directory / "cluster.json").exists():
        raise CannotStart(f"{directory} has a cluster that was not stopped: borzoi spark down")
    port = port or _free_port()
    url = f"spark://127.0.0.1:{port}"
    environment = _environment()
    common = ["--webui-port", "0"]
    master = _spawn(
        [MASTER, "--host", "127.0.0.1", "--port", str(port), *common],
        directory / "master.log",
        environment,
    )
    started = [master]
    try:
        _wait_for("127.0.0.1", port, master)
        worker = _spawn(
            [
                WORKER,
                url,
                "--host",
                "127.0.0.1",
                "--cores",
                str(cores),
                "--memory",
                memory,
                "--work-dir",
                str(directory / "work"),
                *common,
            ],
            directory / "worker.log",
            environment,
        )
        started.append(worker)
        _wait_for_line(directory / "worker.log", "Successfully registered with master", worker)
    except BaseException:
        for process in started:
            _end(process.pid)
        raise
    cluster = Cluster(url, (master.pid, worker.pid))
    (directory / "cluster.json").write_text(json.dumps(asdict(cluster)))
    return cluster


def stop(directory: Path) -> bool:
    """Stop the cluster that was started with this directory; False when there is none."""
    path = directory / "cluster.json"
    if not path.exists():
        return False
    for process in reversed(json.loads(path.read_text())["processes"]):
        _end(process)
    path.unlink()
    return True


def submission(file: Path, options: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The command line and the environment that run a pipeline through spark-submit."""
    script = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    environment = _environment()
    if any(each.startswith("spark://") and "127.0.0.1" not in each for each in options):
        # The workers are elsewhere and must reach the driver.
        del environment["SPARK_LOCAL_IP"]
    return [script, *options, submitted.__file__, str(file)], environment


def _end(process: int) -> None:
    try:
        os.kill(process, signal.SIGTERM)
    except ProcessLookupError:
        return
    if process in _STARTED:
        _STARTED.pop(process).wait(STOP_SECONDS_MAX)


def _spawn(
    arguments: list[str], log: Path, environment: Mapping[str, str]
) -> "subprocess.Popen[bytes]":
    command = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    with log.open("wb") as out:
        process = subprocess.Popen(  # noqa: S603 - Spark's own launcher
            [command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            start_new_session=True,
        )
    _STARTED[process.pid] = process
    return process


def _environment() -> dict[str, str]:
    environment = dict(os.environ) | {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_NO_DAEMONIZE": "1",
    }
    home = find_java_home()
    if home is not None:
        environment["JAVA_HOME"] = str(home)
    return environment


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _wait_for(host: str, port: int, process: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            socket.create_connection((host, port), 1).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > until:
                raise CannotStart("the Spark master did not start: see master.log") from None
            time.sleep(0.2)
        else:
            return


def _wait_for_line(log: Path, line: str, process: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + START_SECONDS_MAX
    while line not in log.read_text(errors="replace"):
        if process.poll() is not None or time.monotonic() > until:
            raise CannotStart("the Spark worker did not start: see worker.log")
        time.sleep(0.2)
