"""How much of the core the simulation reaches by itself: seeds and scripts.

The unit tests of the core have no part in this. What no simulation can reach is named here, line by
line, with the reason; `docs/reliability.md` tells the same in prose. What could be reached and was
not is printed.
"""

import ast
import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.support.interpreter import run_python

CORE = Path(__file__).resolve().parents[2] / "src/borzoi/consensus"
FAST_SEEDS = os.environ.get("BORZOI_COVERAGE_SEEDS", "1..80")
FULL_SEEDS = os.environ.get("BORZOI_COVERAGE_FULL_SEEDS", "1001..1030")
# Draws narrowed to where something rare happens; everything else is drawn as ever.
SMALL = {"replicas": 3, "safety_ticks": 3000, "clients": 6, "think_ticks": 5}
SOUND = {"rot_every": 0, "stale_reads": 0, "lost_writes": 0}
DEEP_ROT = {**SMALL, "rot_every": 15, "rot_deep": 1, "wipe_every": 0, "lost_writes": 0}
LAGGING = {
    **SMALL, "checkpoint_ops": 16, "retained_ops": 32, "pipeline_max": 8, "crash_every": 500,
    "crash_many": 0, "restart_max": 1500, "pause_every": 0, "fast_timeouts": 1,
    "client_timeout": 50, "payload_max": 16, "chunk_bytes": 4096,
}  # fmt: skip
NARROWED: dict[str, tuple[str, dict[str, float]]] = {
    "deep rot": (
        "30000..30050",
        {**DEEP_ROT, "crash_every": 150, "crash_many": 1, "restart_max": 100},
    ),
    "reads in young views": (
        "1..15",
        {**SMALL, "reads": 0.4, "crash_every": 150, "crash_many": 1, "restart_max": 100},
    ),
    "lost disks": (
        "1..20",
        {**SMALL, **SOUND, "full": 1, "rot_deep": 1, "wipe_every": 200, "crash_every": 300,
         "restart_max": 100, "slow_replica": 0, "sync_slow": 0},
    ),
    "a disk far behind": (
        "1..5",
        {**SMALL, "clients": 16, "think_ticks": 1, "client_timeout": 500, "pipeline_max": 32,
         "delay_min": 0, "delay_mean": 0, "loss": 0.02, "sync_max": 2, "slow_replica": 1,
         "slow_factor": 300, "partition_every": 0, "clogging": 0, "pause_every": 0,
         "crash_every": 1000, "crash_many": 0, "restart_max": 100, "slow_cpu": 0,
         "link_capacity": 64, "request_queue_max": 64},
    ),
    "transfers": (
        "1..12",
        {**LAGGING, "slow_replica": 1, "slow_factor": 100, "sync_max": 5, "partition_every": 300,
         "partition_stable": 150, "loss": 0.05, "safety_ticks": 4500, "control_share": 0.5},
    ),
    "the beginning of a view after a checkpoint of it": ("16708..16708", {}),
}  # fmt: skip
# Lines and branches together, as `coverage` counts them, with nothing set aside.
REACHED_MIN = 98.0
# Branches alone, those named below set aside.
BRANCHES_MIN = 98.0

OURS = "a guard against a mistake of our own: reached only when the core is broken"
LIES = "a peer or a disk that lies with true checksums; the checks in front of it are reached"
ASKED = "for drivers, operators and tests; the simulated driver asks in another way"
BOLTED = "a timer is stopped together with its reason, and this is the second bolt"
DIVERGED = "replicas that diverged: the auditor compares checkpoints first and ends the run"
COMPILED = "the interpreter takes this way over the line behind the test"
UNREACHABLE: dict[str, dict[str, str]] = {
    "checkpoint": {
        "decode_manifest: if len(data) < start or data[60] != Command.PREPARE:": LIES,
        "decode_manifest: if count > ARTIFACTS_MAX"
        " or len(data) != start + count * _ENTRY.size:": LIES,
        "decode_manifest: if not isinstance(header, Prepare)"
        " or checksum(raw[16:]) != header.checksum:": LIES,
    },
    "client_table": {
        "restore: if end > len(data):": LIES,
        "restore: if position > len(data):": LIES,
    },
    "data_plane": {
        "_execute: if log.offsets.pop(key, None) is None:": COMPILED,
    },
    "following": {
        "_take_new: if header.parent != r.canon[r.op].checksum:": OURS,
        "on_commit: if ours is not None"
        " and header.commit_checksum not in (ZERO, ours.checksum):": OURS,
    },
    "frames": {"unpack_header: if layout is None:": OURS},
    "heartbeat": {
        "compare_checkpoint: if ours is not None and op and ours != identity:": DIVERGED,
    },
    "invariants": {
        "present: if value is None:": OURS,
    },
    "journal": {
        "recover: if header.op > superblock.checkpoint_op:": "the scan leaves those out",
    },
    "merge": {
        "merge: if isinstance(known, Undecided):": OURS,
        "_canonical_headers: if op in known and known[op].checksum != header.checksum:": OURS,
        "_chained: if above.parent != below.checksum:": OURS,
    },
    "new_view": {
        "on_start_view: if not headers or len(headers) != header.op - header.commit + 1"
        " or any(map(is_blank, headers)):": LIES,
    },
    "normal": {
        "on_prepare_timer: if not r.is_primary or not r.pipeline.entries:": BOLTED,
    },
    "pipeline": {
        "forget: if highest is None:": OURS,
    },
    "repair": {"ask: if not r.others:": "no bit rot is injected where no other replica has a copy"},
    "replica": {
        "ticks_until_deadline: return max(1, self.timers.next_deadline - self.timers.now)": ASKED,
        "clock_error_us: return heartbeat.clock_error_us(self)": ASKED,
    },
    "state": {
        "check: if self.checkpoint_op > commit_min or commit_min > self.commit_max:": OURS,
        "check: if commit_min > self.op:": OURS,
    },
    "state_transfer": {
        "on_stall_timer: if transfer is None:": BOLTED,
        "on_request_chunk: if header.artifact >= len(manifest.entries)"
        " or header.length > r.config.chunk_bytes:": LIES,
    },
    "superblock": {"_decode_slot: if not suffix:": LIES},
    "timeouts": {
        "back_off: if deadline < self.next_deadline:": "only a timer that fired backs off, and"
        " then the next deadline is looked for anew",
    },
    "transfer": {"checkpoint: if self.manifest is None:": OURS},
    "view_change": {
        "on_vote_timer: if r.voting:": BOLTED,
        "on_view_change_timer: if r.status is not VIEW_CHANGE:": BOLTED,
        "on_abdicate_timer: if not r.is_primary or not r.pipeline.entries:": BOLTED,
        "on_do_view_change_timer: if r.status is VIEW_CHANGE and r.log_view < r.view:": BOLTED,
        "count_claim: if headers is None or len(headers) != header.op - header.commit + 1:": LIES,
    },
}


def statements(module: str) -> dict[int, str]:
    """Every line of a module as the table writes it: the function it is in, and its text."""
    source = (CORE / f"{module}.py").read_text()
    functions = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                functions[number] = node.name
    return {
        number: f"{functions.get(number, '')}: {line.strip()}"
        for number, line in enumerate(source.splitlines(), start=1)
    }


class Missed:
    """What a run left out, as `coverage json` tells it."""

    def __init__(self, report: dict[str, Any]) -> None:
        self.totals = report["totals"]
        self.named: list[str] = []
        self.open: list[str] = []
        self.branches_named = 0
        for name, found in sorted(report["files"].items()):
            self._file(Path(name).stem, found)

    def _file(self, module: str, found: dict[str, Any]) -> None:
        texts, reasons = statements(module), UNREACHABLE.get(module, {})
        told = set()
        for source, target in found["missing_branches"]:
            is_named = texts[source] in reasons
            self.branches_named += is_named
            told.add(target)
            where = f"{module}.py:{source} -> {target if target > 0 else 'exit'}: {texts[source]}"
            (self.named if is_named else self.open).append(where)
        previous = 0
        for number in found["missing_lines"]:
            # Told with the branch that leads here, or with the line before it.
            if number not in told and number - 1 != previous:
                where = f"{module}.py:{number}: {texts[number]}"
                (self.named if texts[number] in reasons else self.open).append(where)
            previous = number

    @property
    def branches_reached(self) -> float:
        whole = self.totals["num_branches"] - self.branches_named
        return 100.0 * self.totals["covered_branches"] / whole

    def lines(self) -> Iterator[str]:
        totals = self.totals
        yield f"lines and branches reached: {totals['percent_covered']:.2f} %"
        yield f"branches reached: {totals['covered_branches']} of {totals['num_branches']}"
        yield f"branches reached, {self.branches_named} set aside: {self.branches_reached:.2f} %"
        yield "not reached, though a simulation could:"
        yield from (f"  {one}" for one in self.open)


def test_the_table_names_what_is_in_the_core():
    for module, reasons in UNREACHABLE.items():
        assert not set(reasons) - set(statements(module).values()), module


def measured(folder: Path, name: str, *arguments: str) -> None:
    """One process under `coverage`, with a data file of its own."""
    coverage = ("-m", "coverage", "run", "--branch", "--source=borzoi.consensus")
    simulation = ("-m", "borzoi", "simulate", *arguments)
    environment = {**os.environ, "COVERAGE_FILE": str(folder / f".coverage.{name}")}
    done = run_python(*coverage, *simulation, env=environment, timeout=3600)
    assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"


def seeds(numbers: str, settings: dict[str, float] | None = None) -> tuple[str, ...]:
    sets = (f"--set={field}={value}" for field, value in (settings or {}).items())
    return ("--seeds", numbers, "--jobs", "1", *sets)


def reported(folder: Path) -> dict[str, Any]:
    environment = {**os.environ, "COVERAGE_FILE": str(folder / ".coverage")}
    for arguments in (("combine", str(folder)), ("json", "-o", str(folder / "coverage.json"))):
        run_python("-m", "coverage", *arguments, env=environment, check=True)
    report: dict[str, Any] = json.loads((folder / "coverage.json").read_text())
    return report


@pytest.mark.deep
def test_the_simulation_reaches_the_core(tmp_path, capsys):
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = [
            pool.submit(measured, tmp_path, "fast", *seeds(FAST_SEEDS)),
            pool.submit(measured, tmp_path, "full", *seeds(FULL_SEEDS, {"full": 1})),
            pool.submit(measured, tmp_path, "hunt", "--hunt"),
        ]
        for name, (numbers, settings) in NARROWED.items():
            runs.append(pool.submit(measured, tmp_path, name, *seeds(numbers, settings)))
    for run in runs:
        run.result()
    missed = Missed(reported(tmp_path))
    with capsys.disabled():
        print()
        print("\n".join(missed.lines()))
    assert missed.totals["percent_covered"] >= REACHED_MIN
    assert missed.branches_reached >= BRANCHES_MIN
