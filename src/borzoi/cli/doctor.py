"""``borzoi doctor``: checks whether this machine can run a server, and whether a running one works.

Each check is a function that returns a verdict: what was found, and what to do about it.
"""

import os
import platform
import resource
import shutil
import sys
import time
from collections.abc import Iterator
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from borzoi import __version__
from borzoi.cli.connecting import Connecting
from borzoi.cli.faults import Exit
from borzoi.cli.output import chosen, emit_list, list_options
from borzoi.client import Client
from borzoi.model.errors import BorzoiError

GIB: Final = 1 << 30
#: Below this many descriptors a server can serve few partitions and connections.
DESCRIPTORS_MIN: Final = 4096
FREE_DISK_MIN: Final = 2 * GIB
#: If the clocks of client and server differ by more, reads by time give wrong results. The server's
#: statistics may be a second or two old, so a smaller difference cannot be detected.
CLOCK_SECONDS_MAX: Final = 5.0
#: Variables of the command line; a server would report them as unknown settings.
VARIABLES: Final = frozenset({"BORZOI_SERVER", "BORZOI_HOME", "BORZOI_USERNAME", "BORZOI_PASSWORD"})
PACKAGES: Final = ("msgspec", "numpy", "uvloop", "xxhash", "cryptography", "click")


class CheckState(Enum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Verdict(NamedTuple):
    check: str
    state: CheckState
    found: str
    advice: str = ""


@click.command()
@list_options
@click.pass_obj
def doctor(connecting: Connecting, form: str, list_mode: str) -> None:
    """Check configuration, ports, disk, limits, clock and versions, and say what to do."""
    verdicts = [*examine(connecting)]
    rows = [{**one._asdict(), "state": one.state.value} for one in verdicts]
    columns = {"check": "Check", "state": "State", "found": "Found", "advice": "What to do"}
    emit_list(rows, columns, chosen(form, list_mode))
    if any(one.state is CheckState.PROBLEM for one in verdicts):
        sys.exit(int(Exit.FAILED))


def examine(connecting: Connecting) -> Iterator[Verdict]:
    yield versions()
    yield accelerator()
    yield configuration()
    yield disk(data_directory())
    yield descriptors(resource.getrlimit(resource.RLIMIT_NOFILE))
    yield processors()
    yield from server(connecting)


def versions() -> Verdict:
    found = [f"borzoi {__version__}", f"Python {platform.python_version()}"]
    missing = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        return Verdict(
            "versions", CheckState.PROBLEM, f"missing: {', '.join(missing)}", "install borzoi again"
        )
    return Verdict("versions", CheckState.OK, ", ".join(found))


def accelerator() -> Verdict:
    from borzoi.records.accelerator import ACCELERATOR

    if ACCELERATOR.native is not None:
        return Verdict("accelerator", CheckState.OK, "the C module is in use")
    return Verdict(
        "accelerator",
        CheckState.WARNING,
        "batches are stamped in Python",
        "install a C compiler and borzoi again, for faster sends",
    )


def configuration() -> Verdict:
    """Run `borzoi config check` in its own process: it belongs to the server."""
    import subprocess

    ran = subprocess.run(
        [sys.executable, "-m", "borzoi", "config", "check"],
        capture_output=True,
        text=True,
        check=False,
        env={name: value for name, value in os.environ.items() if name not in VARIABLES},
    )
    said = (ran.stderr or ran.stdout).strip().splitlines()
    last = said[-1] if said else ""
    if ran.returncode == 0:
        return Verdict("configuration", CheckState.OK, last)
    state = CheckState.WARNING if "warning" in ran.stderr else CheckState.PROBLEM
    return Verdict("configuration", state, last, "`borzoi config check` says all of it")


def data_directory() -> Path:
    named = os.environ.get("BORZOI_SYSTEM_PATH") or os.environ.get("IGGY_SYSTEM_PATH")
    return Path(named or "local_data")


def disk(directory: Path) -> Verdict:
    """Check the free space in the data directory."""
    place = next(
        (one for one in (directory, *directory.absolute().parents) if one.exists()), Path("/")
    )
    free = shutil.disk_usage(place).free
    found = f"{free / GIB:.1f} GiB free at {place}"
    if not os.access(place, os.W_OK):
        return Verdict("disk", CheckState.PROBLEM, f"{place} cannot be written", "change its owner")
    if free < FREE_DISK_MIN:
        return Verdict("disk", CheckState.WARNING, found, "make room, or set system.path elsewhere")
    return Verdict("disk", CheckState.OK, found)


def descriptors(limits: tuple[int, int]) -> Verdict:
    soft, hard = limits
    found = f"{soft} files, {hard} at most"
    if hard != resource.RLIM_INFINITY and hard < DESCRIPTORS_MIN:
        advice = "raise it: ulimit -n, LimitNOFILE in systemd, --ulimit for containers"
        return Verdict("open files", CheckState.WARNING, found, advice)
    return Verdict("open files", CheckState.OK, found)


def processors() -> Verdict:
    usable = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Verdict(
        "machine", CheckState.OK, f"{usable} processors, {memory / GIB:.1f} GiB of memory"
    )


def server(connecting: Connecting) -> Iterator[Verdict]:
    """Check the server at the address, if there is one."""
    address = connecting.address
    try:
        with Client(
            connecting.client_options(log_in=False), timeout=3, connect_timeout=2
        ) as client:
            began = time.perf_counter()
            client.ping()
            took = (time.perf_counter() - began) * 1000
        yield Verdict("server", CheckState.OK, f"{address} answers in {took:.1f} ms")
    except BorzoiError as fault:
        yield Verdict("server", CheckState.WARNING, str(fault), "`borzoi serve` starts one")
        return
    yield from _logged_in(connecting)


def _logged_in(connecting: Connecting) -> Iterator[Verdict]:
    try:
        options = connecting.client_options()
    except (click.ClickException, BorzoiError):
        yield Verdict("login", CheckState.WARNING, "no credentials were given", "`borzoi login`")
        return
    try:
        with Client(options, timeout=3) as client:
            before, stats, after = time.time(), client.get_stats(), time.time()
    except BorzoiError as fault:
        yield Verdict("login", CheckState.PROBLEM, str(fault), "`borzoi login`, or -u and -p")
        return
    yield Verdict("login", CheckState.OK, "the credentials are right")
    yield clock(_server_time(stats), (before + after) / 2)


def _server_time(stats: Any) -> float:
    return float(stats.start_time + stats.run_time) / 1e6


def clock(theirs: float, ours: float) -> Verdict:
    apart = abs(theirs - ours)
    if apart > CLOCK_SECONDS_MAX:
        found = f"{apart:.0f} s apart"
        return Verdict("clock", CheckState.WARNING, found, "synchronise both with NTP")
    return Verdict("clock", CheckState.OK, f"at most {CLOCK_SECONDS_MAX:.0f} s apart")
