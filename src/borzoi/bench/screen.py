"""The terminal output of a run: progress while it runs, a table at the end."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from borzoi.bench.board import BATCHES, PAYLOAD_BYTES, Board
from borzoi.bench.comparing import Difference
from borzoi.bench.plan import Plan
from borzoi.bench.running import Progress as OnProgress
from borzoi.bench.summaries import PERCENTILES


@contextmanager
def live(plan: Plan, console: Console) -> Iterator[OnProgress]:
    """A progress bar over the batches of all actors; nothing if the console is not a terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[rate]:>8.1f} MB/s"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        total = plan.message_batches * plan.actors_count
        task = bar.add_task(plan.kind.alias, total=total, rate=0.0)
        began = time.monotonic()

        def update(board: Board) -> None:
            everyone = range(board.actors)
            seconds = max(time.monotonic() - began, 1e-9)
            rate = board.total(PAYLOAD_BYTES, everyone) / seconds / 1e6
            bar.update(task, completed=board.total(BATCHES, everyone), rate=rate)

        yield update


def print_summary(report: Mapping[str, Any], console: Console) -> None:
    """One row per group of actors, percentiles over all their latencies together."""
    table = Table(title=report["params"]["pretty_name"], title_justify="left")
    table.add_column("")
    for heading in ("MB/s", "messages/s", *(f"{name} ms" for name in PERCENTILES)):
        table.add_column(heading, justify="right")
    for group in report["group_metrics"]:
        summary = group["summary"]
        table.add_row(
            summary["kind"].replace("_", " "),
            f"{summary['total_throughput_megabytes_per_second']:,.1f}",
            f"{summary['total_throughput_messages_per_second']:,.0f}",
            *(f"{summary[f'pooled_{name}_latency_ms']:.3f}" for name in PERCENTILES),
        )
    console.print(table)
    limits = report.get("machine_limits")
    if limits:
        reached = max(
            group["summary"]["total_throughput_megabytes_per_second"]
            for group in report["group_metrics"]
        )
        print_limits(limits, console, reached=reached)


def print_limits(
    limits: Mapping[str, float], console: Console, *, reached: float | None = None
) -> None:
    table = Table(title="Limits of this machine with the same frames", title_justify="left")
    table.add_column("")
    table.add_column("MB/s", justify="right")
    if reached is not None:
        table.add_column("this run", justify="right")
    for name, rate in limits.items():
        share = () if reached is None else (f"{reached / rate:.0%}",)
        table.add_row(name.replace("_", " "), f"{rate:,.0f}", *share)
    console.print(table)


def print_differences(differences: list[Difference], console: Console) -> None:
    table = Table()
    for heading in ("", "figure", "A", "B", "B / A"):
        table.add_column(heading, justify="left" if heading in ("", "figure") else "right")
    for one in differences:
        ratio = "–" if one.ratio is None else f"{one.ratio:.2f}"
        style = {True: "green", False: "red", None: ""}[one.is_better]
        table.add_row(
            one.group.replace("_", " "),
            one.figure,
            f"{one.before:,.3f}",
            f"{one.after:,.3f}",
            f"[{style}]{ratio}[/]" if style else ratio,
        )
    console.print(table)
