"""Makes a failing draw smaller while it still fails the same way.

Greedy: shorten the time to the failure, switch off fault kinds and operation kinds one by one, then
reduce replicas and clients; repeat until a whole round changes nothing. Every candidate is one full
run, so the order is from what usually helps most to what helps least.
"""

from collections.abc import Callable, Iterator
from typing import Final

from borzoi.simulator.draws import Draw
from borzoi.simulator.outcome import RunOutcome
from borzoi.simulator.simulation import simulate

ROUNDS_MAX: Final = 8
SIZES: Final = frozenset({"clients", "replicas", "pipeline_max", "safety_ticks"})
SWITCHES: Final = (
    "crash_every", "partition_every", "pause_every", "rot_every", "wipe_every", "sync_error_every",
    "disk_full_every", "clogging", "loss", "duplication", "clock_skew_us", "clock_drift",
    "clock_jump_every", "slow_replica", "sync_slow", "datagrams", "disturb_primary", "crash_many",
    "crash_inside_input", "one_way", "command_filters", "resend_duplicates", "zombies",
    "dead_clients", "invalid", "reads", "idle_every", "deletes", "purges", "offsets", "truncates",
    "delay_mean", "delay_min",
)  # fmt: skip


def candidates(draw: Draw, failed_at: int) -> Iterator[dict[str, float]]:
    """Changes that make `draw` a little simpler, the boldest first."""
    if failed_at < draw.safety_ticks:
        yield {"safety_ticks": failed_at + 1}
    for name in SWITCHES:
        if getattr(draw, name):
            yield {name: 0}
    if not draw.fifo:
        yield {"fifo": 1}
    if draw.link_capacity < 64:
        yield {"link_capacity": 64}
    if draw.data_groups > 1:
        yield {"data_groups": 1}
    for clients in (1, draw.clients // 2, draw.clients - 1):
        if 0 < clients < draw.clients:
            yield {"clients": clients}
    for replicas in (3, draw.replicas - 1):
        if 0 < replicas < draw.replicas:
            yield {"replicas": replicas}
    if draw.pipeline_max > 1:
        yield {"pipeline_max": draw.pipeline_max // 2}


def minimize(
    draw: Draw,
    *,
    bugs: tuple[str, ...] = (),
    progress: Callable[[Draw], None] | None = None,
    run: Callable[..., RunOutcome] = simulate,
) -> tuple[Draw, RunOutcome]:
    """The simplest draw found that fails the same checker; `draw` if it does not fail."""
    best = run(draw, bugs=bugs)
    if best.failure is None:
        return draw, best
    kind, failed_at = best.failure.kind, best.failure.tick
    for _ in range(ROUNDS_MAX):
        changed = False
        for change in list(candidates(draw, failed_at)):
            if any(
                name in SIZES and value >= getattr(draw, name) for name, value in change.items()
            ):
                continue  # an earlier change of this round went further
            simpler = draw.changed(**change)
            if simpler == draw:
                continue
            outcome = run(simpler, bugs=bugs)
            if outcome.failure is not None and outcome.failure.kind == kind:
                draw, best, changed = simpler, outcome, True
                failed_at = outcome.failure.tick
                if progress is not None:
                    progress(draw)
        if not changed:
            break
    return draw, best
