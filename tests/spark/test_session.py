"""Sessions: their settings, and where their noise goes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import fill

from borzoi.spark.broker import Broker
from borzoi.spark.session import SETTINGS, STDERR, _is_here, _printing_to


def test_what_starts_meanwhile_prints_into_the_file(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "spark.log"
    with _printing_to(log):
        subprocess.run([sys.executable, "-c", "import sys; sys.stderr.write('noise')"], check=True)
    assert log.read_text() == "noise"
    before = os.fstat(STDERR)
    with _printing_to(None):
        assert os.fstat(STDERR) == before


@pytest.mark.parametrize(
    ("master", "is_here"),
    [
        (None, True),
        ("local[2]", True),
        ("spark://127.0.0.1:7077", True),
        ("spark://spark-master:7077", False),
        ("k8s://https://cluster:6443", False),
    ],
)
def test_only_clusters_on_this_machine_are_kept_to_loopback(
    master: str | None, is_here: bool
) -> None:
    assert _is_here(master) == is_here


@pytest.mark.spark
def test_a_session_has_the_settings_that_the_connector_needs(spark: SparkSession) -> None:
    for key, value in SETTINGS.items():
        assert spark.conf.get(key) == value
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"
    assert spark.conf.get("spark.ui.enabled") == "false"


@pytest.mark.spark
def test_spark_finds_the_source_by_itself_in_sessions_of_others(
    spark: SparkSession, servers: str, broker: Broker, topic: str
) -> None:
    fill(broker, topic, 0, [b"x"] * 5)
    other = spark.newSession()
    other.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    frame = other.read.format("borzoi").options(servers=servers, subscribe=topic).load()
    assert frame.filter("offset > 2").count() == 2
