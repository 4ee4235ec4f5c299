"""Compiles the accelerator (`native/`) where there is a C compiler, and never fails without one.

The module lands beside the Python code it serves, where an editable installation finds it; a wheel
gets a copy of it. It uses only the limited API, so one file serves every CPython from 3.11 on.
Without a compiler, or without the headers of Python, the result is a wheel of Python alone.
"""

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = Path("native/batches.c")
#: Everything that the module is made of.
PARTS = (
    SOURCE,
    *(Path("native", name) for name in ("lines.h", "messages.h", "rows.h", "stamping.h", "xxh3.h")),
    Path("hatch_build.py"),
)
MODULE = Path("src/borzoi/records/_native.abi3.so")
IN_WHEEL = "borzoi/records/_native.abi3.so"

#: The oldest CPython that the module serves, as the limited API and as a wheel's tag write it.
LIMITED_API = "0x030B0000"
PYTHON_TAG = "cp311"

COMPILE_SECONDS_MAX = 120


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]  # found by this name
    """Runs before the files of a wheel, or of an editable installation, are collected."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        fault = built(root)
        if fault is not None:
            self.app.display_warning(f"borzoi is installed without its accelerator: {fault}")
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"{PYTHON_TAG}-abi3-{platform}"
        if version != "editable":
            build_data["force_include"][str(root / MODULE)] = IN_WHEEL


def built(root: Path) -> str | None:
    """Make the module, unless it is newer than its parts; why there is none."""
    module = root / MODULE
    if module.exists() and all(
        (root / part).stat().st_mtime <= module.stat().st_mtime for part in PARTS
    ):
        return None
    module.unlink(missing_ok=True)
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "it is for CPython with its lock"
    # Written under another name first: an interrupted compiler must not leave half a module.
    unfinished = module.with_suffix(f".{os.getpid()}.tmp")
    try:
        ran = subprocess.run(
            command(root / SOURCE, unfinished),
            capture_output=True,
            text=True,
            timeout=COMPILE_SECONDS_MAX,
        )
        if ran.returncode:
            said = ran.stderr.strip().splitlines()
            return said[0] if said else f"the compiler ended with status {ran.returncode}"
        unfinished.replace(module)
    except (OSError, subprocess.SubprocessError) as failure:
        return f"there is no C compiler ({failure})"
    finally:
        unfinished.unlink(missing_ok=True)
    return None


def command(source: Path, target: Path) -> list[str]:
    """CC, CFLAGS and ARCHFLAGS are those of every C extension."""
    # The compiler that built this Python may be called something else here.
    compiler = shlex.split(os.environ.get("CC", "cc"))
    flags = ["-std=c11", "-O3", "-Wall", "-fvisibility=hidden", f"-DPy_LIMITED_API={LIMITED_API}"]
    for name in ("CFLAGS", "ARCHFLAGS"):
        flags += shlex.split(os.environ.get(name, ""))
    linked = (
        ["-bundle", "-undefined", "dynamic_lookup"]
        if sys.platform == "darwin"
        else ["-shared", "-fPIC"]
    )
    include = f"-I{sysconfig.get_path('include')}"
    return [*compiler, *flags, include, str(source), *linked, "-o", str(target)]
