"""Compiles the Java classes by the compiler that Spark ships, and puts their scan into a session.

Spark compiles the code that it generates by Janino. The classes go into a JAR in the directory that
pyspark removes at the end, and Spark gives it to executors as it does for `ADD JAR`. Without
Janino, with a Spark whose classes differ, or over Spark Connect, Python reads as before, and one
line in the log says why.
"""

import logging
import zipfile
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

SOURCES: Final = ("SegmentSplit", "SegmentColumns", "SegmentReader", "SegmentScan", "SegmentRule")
RULE: Final = "borzoi.spark.SegmentRule"
JAR: Final = "borzoi-segments.jar"


def install(spark: SparkSession) -> bool:
    """Let scans of the session read segments inside the JVM; False when they cannot."""
    if not hasattr(spark, "_jsparkSession"):
        log.info("segments are read by Python: a client of Spark Connect has no JVM")
        return False
    try:
        java = spark._jsparkSession
        if not _has_rule(java):
            _add_rule(java, _rule_class(spark).newInstance())
    except Exception as error:  # whatever is different in this Spark, Python reads
        log.warning("segments are read by Python, which is slower: %s", reason(error))
        return False
    return True


def reason(error: Exception) -> str:
    """The first line of an exception, or of the one of Java that it stands for."""
    text = f"{getattr(error, 'java_exception', error)}".strip()
    return text.splitlines()[0] if text else type(error).__name__


def _has_rule(java: Any) -> bool:
    rules = java.experimental().extraOptimizations()
    return any(rules.apply(at).ruleName() == RULE for at in range(rules.size()))


def _add_rule(java: Any, rule: Any) -> None:
    methods = java.experimental()
    appended = getattr(methods.extraOptimizations(), "$colon$plus")(rule)
    getattr(methods, "extraOptimizations_$eq")(appended)


def _rule_class(spark: SparkSession) -> Any:
    """The class of the rule, which all sessions of a context share."""
    java = spark._jsparkSession
    loader = java.sharedState().jarClassLoader()
    if loader.findResource(RULE.replace(".", "/") + ".class") is None:
        jar = Path(spark.sparkContext._temp_dir) / JAR
        write_jar(jar, _compiled(spark, loader))
        java.sessionState().resourceLoader().addJar(f"{jar}")
    return loader.loadClass(RULE)


def _compiled(spark: SparkSession, loader: Any) -> dict[str, bytes]:
    """The class files by name."""
    java: Any = spark.sparkContext._jvm
    compiler = java.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(loader)
    compiler.cook(joined([files(__package__).joinpath(f"{n}.java").read_text() for n in SOURCES]))
    return {name: bytes(code) for name, code in dict(compiler.getBytecodes()).items()}


def joined(sources: Sequence[str]) -> str:
    """The sources as the one file that the compiler takes."""
    lines = [line for source in sources for line in source.splitlines()]
    heads = dict.fromkeys(line for line in lines if line.startswith(("package ", "import ")))
    return "\n".join([*heads, *(line for line in lines if line not in heads)])


def write_jar(path: Path, classes: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, code in classes.items():
            archive.writestr(name.replace(".", "/") + ".class", code)
