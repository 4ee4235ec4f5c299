"""The summary table of a campaign, as plain text that is also a Markdown table."""

from typing import Final

from borzoi.simulator.outcome import CampaignTotals

FAILURES_SHOWN: Final = 20
# In the order a reader asks: did anything happen, what kinds of it, how was it disturbed.
HEADLINES: Final = (
    ("commits", "committed ops"),
    ("replies", "replies to clients"),
    ("view_changes", "view changes"),
    ("repairs", "repairs"),
    ("transfers", "state transfers"),
    ("checkpoints", "checkpoints"),
    ("restarts", "restarts"),
    ("reads", "reads checked"),
    ("undecidable", "ended undecidable, legitimately"),
)


def table(rows: list[tuple[str, str]], heads: tuple[str, str]) -> list[str]:
    width = max(len(heads[0]), *(len(row[0]) for row in rows))
    figures = max(len(heads[1]), *(len(row[1]) for row in rows))
    lines = [f"| {heads[0]:<{width}} | {heads[1]:>{figures}} |"]
    lines.append(f"|{'-' * (width + 2)}|{'-' * (figures + 1)}:|")
    lines += [f"| {name:<{width}} | {figure:>{figures}} |" for name, figure in rows]
    return lines


def number(value: float) -> str:
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"


def summary(totals: CampaignTotals) -> list[str]:
    wall = totals.wall_seconds or 1e-9
    rows = [
        ("seeds", number(totals.seeds)),
        ("failures", number(len(totals.failures))),
        ("simulated hours", number(totals.simulated_hours)),
        ("events", number(totals.events)),
        ("core-seconds", number(totals.wall_seconds)),
        ("events per core-second", number(int(totals.events / wall))),
        ("times real time", number(totals.ticks / 100 / wall)),
        ("vacuous", f"{totals.vacuous_share:.1%}"),
    ]
    rows += [(label, number(totals.counters[name])) for name, label in HEADLINES]
    lines = table(rows, ("campaign", "figure"))
    faults = [(name, number(count)) for name, count in sorted(totals.faults.items())]
    if faults:
        lines += ["", *table(faults, ("faults injected", "count"))]
    shown = {name for name, _ in HEADLINES}
    rest = [
        (name, number(count))
        for name, count in sorted(totals.counters.items())
        if name not in shown
    ]
    if rest:
        lines += ["", *table(rest, ("rules and messages", "count"))]
    return lines + failure_lines(totals)


def failure_lines(totals: CampaignTotals) -> list[str]:
    lines = [""] if totals.failures else []
    for failure in sorted(totals.failures, key=lambda entry: int(entry["seed"]))[:FAILURES_SHOWN]:
        lines.append(f"FAILED seed {failure['seed']}: {failure['kind']} at tick {failure['tick']}:")
        lines.append(f"  {failure['message']}")
        lines.append(f"  draw: {failure['draw']}")
    hidden = len(totals.failures) - FAILURES_SHOWN
    if hidden > 0:
        lines.append(f"and {hidden} more")
    return lines
