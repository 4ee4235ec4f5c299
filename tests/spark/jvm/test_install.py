"""The scan comes into a session, or the session stays as it is."""

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zipfile import ZipFile

import pytest
from pyspark.sql import SparkSession

from borzoi.spark.jvm.install import RULE, SOURCES, install, joined, reason, write_jar


def rules(spark: SparkSession) -> list[str]:
    found = spark._jsparkSession.experimental().extraOptimizations()
    return [found.apply(at).ruleName() for at in range(found.size())]


def test_sources_become_one_file() -> None:
    first = "package a;\n\nimport b.C;\n\nclass D {\n}\n"
    second = "package a;\n\nimport b.C;\nimport b.E;\n\nclass F {\n}\n"
    lines = [line for line in joined([first, second]).splitlines() if line]
    assert lines == ["package a;", "import b.C;", "import b.E;", "class D {", "}", "class F {", "}"]


def test_every_source_is_shipped() -> None:
    folder = Path(__file__).parents[3] / "src" / "borzoi" / "spark" / "jvm"
    assert sorted(path.stem for path in folder.glob("*.java")) == sorted(SOURCES)


def test_a_jar_has_a_file_for_each_class(tmp_path: Path) -> None:
    write_jar(tmp_path / "x.jar", {"a.b.C": b"1", "D": b"2"})
    with ZipFile(tmp_path / "x.jar") as jar:
        assert {name: jar.read(name) for name in jar.namelist()} == {
            "a/b/C.class": b"1",
            "D.class": b"2",
        }


class WithoutCompiler:
    """A session of a Spark that has other classes."""

    @property
    def _jsparkSession(self) -> Any:
        return SimpleNamespace(experimental=self._fail)

    def _fail(self) -> None:
        raise TypeError("'JavaPackage' object is not callable")


def test_a_session_that_is_different_keeps_python(caplog: pytest.LogCaptureFixture) -> None:
    session: Any = WithoutCompiler()
    with caplog.at_level(logging.INFO):
        assert not install(session)
    (line,) = caplog.messages
    assert line == "segments are read by Python, which is slower: " + (
        "'JavaPackage' object is not callable"
    )


def test_a_client_of_spark_connect_keeps_python(caplog: pytest.LogCaptureFixture) -> None:
    session: Any = object()
    with caplog.at_level(logging.INFO):
        assert not install(session)
    (line,) = caplog.messages
    assert "Spark Connect" in line


def test_a_reason_is_one_line() -> None:
    assert reason(ValueError("one\ntwo")) == "one"
    assert reason(ValueError()) == "ValueError"
    error: Any = RuntimeError("An error occurred while calling o69.cook.")
    error.java_exception = "CompileException: Line 5"
    assert reason(error) == "CompileException: Line 5"


@pytest.mark.spark
def test_a_session_has_the_scan_once(spark: SparkSession) -> None:
    assert rules(spark).count(RULE) == 1
    assert install(spark)
    assert rules(spark).count(RULE) == 1
    other = spark.newSession()
    assert RULE not in rules(other)
    assert install(other)
    assert rules(other) == [RULE]
    jars = spark.sparkContext._jsc.sc().listJars().mkString(",")
    assert jars.count("borzoi-segments.jar") == 1
