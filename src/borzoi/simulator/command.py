"""`borzoi simulate`: one seed with its trace, many with a summary, or one made small."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from borzoi.simulator import campaign, minimize, planted, report
from borzoi.simulator.draws import UnknownSetting, draw, parse_settings
from borzoi.simulator.outcome import CampaignTotals, RunOutcome
from borzoi.simulator.simulation import simulate as simulate_draw

VACUOUS_SHARE_MAX = 0.05
# With fewer seeds than this the share of vacuous ones says nothing.
VACUOUS_SEEDS_MIN = 40


class SeedRange(click.ParamType[tuple[int, int]]):
    name = "A..B"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        if isinstance(value, tuple):
            return int(value[0]), int(value[1])
        first, dots, last = str(value).partition("..")
        if not dots or not first.isdigit() or not last.isdigit() or int(last) < int(first):
            self.fail(f"{value!r} is not a range of seeds such as 1..1000", param, ctx)
        return int(first), int(last)


@click.command(context_settings={"max_content_width": 100})
@click.option("--seed", type=click.IntRange(min=0), help="Replay one seed, one line per event.")
@click.option("--seeds", type=SeedRange(), help="Run the seeds A to B, both included.")
@click.option(
    "--jobs", type=click.IntRange(min=1), help="Processes for --seeds; default: all cores."
)
@click.option(
    "--resume",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep finished chunks in this file and skip those already in it.",
)
@click.option("--minimize", "smaller", is_flag=True, help="With --seed: simplify the failing draw.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Override the draw.")
@click.option("--bug", "bugs", multiple=True, metavar="NAME", help="Plant a bug in the core.")
@click.option("--hunt", is_flag=True, help="Look for every planted bug; one line each.")
@click.option("--quiet", is_flag=True, help="With --seed: no trace, only the result.")
def simulate(
    *,
    seed: int | None,
    seeds: tuple[int, int] | None,
    jobs: int | None,
    resume: Path | None,
    smaller: bool,
    settings: tuple[str, ...],
    bugs: tuple[str, ...],
    hunt: bool,
    quiet: bool,
) -> None:
    """Run the replicated cluster in a deterministic simulation and check what it promises."""
    try:
        overrides = parse_settings(settings)
    except UnknownSetting as error:
        raise click.BadParameter(str(error), param_hint="--set") from error
    if (seed is not None) + (seeds is not None) + hunt != 1:
        raise click.UsageError("give either --seed N or --seeds A..B or --hunt")
    if hunt:
        sys.exit(_hunt())
    if smaller and seed is None:
        raise click.UsageError("--minimize needs --seed N")
    if seed is not None:
        sys.exit(_one(seed, overrides, bugs, smaller=smaller, quiet=quiet))
    if seeds is not None:
        planned = campaign.Campaign(seeds[0], seeds[1], overrides, bugs)
        sys.exit(_many(planned, jobs or os.cpu_count() or 1, resume))


def _hunt() -> int:
    missed = 0
    for one in planted.PLANTED:
        found = planted.find(one)
        missed += found.failure is None
        click.echo(found.line())
    for scenario in planted.SCENARIOS:
        failure = scenario(())
        missed += failure is not None
        click.echo(f"{scenario.__name__:<36} {'ok' if failure is None else failure.line()}")
    return 1 if missed else 0


def _one(
    seed: int, settings: Mapping[str, float], bugs: tuple[str, ...], *, smaller: bool, quiet: bool
) -> int:
    chosen = draw(seed, settings)
    if smaller:
        chosen, outcome = minimize.minimize(
            chosen, bugs=bugs, progress=lambda simpler: click.echo(f"still fails: {simpler.line()}")
        )
        click.echo(f"smallest draw: {chosen.line()}")
        for line in outcome.failure.trace if outcome.failure else ():
            click.echo(line)
    else:
        click.echo(f"draw: {chosen.line()}")
        outcome = simulate_draw(chosen, bugs=bugs, trace=None if quiet else click.echo)
    _show(outcome)
    return 0 if outcome.failure is None else 1


def _show(outcome: RunOutcome) -> None:
    for line in report.summary(CampaignTotals.of([outcome])):
        click.echo(line)
    click.echo(f"digest {outcome.digest} state {outcome.state_digest}")
    click.echo("ok" if outcome.failure is None else f"FAILED: {outcome.failure.line()}")


def _many(planned: campaign.Campaign, jobs: int, resume: Path | None) -> int:
    def progress(totals: CampaignTotals, whole: int) -> None:
        click.echo(
            f"\r{totals.seeds:>7} of {whole} seeds, {totals.simulated_hours:8.1f} h simulated, "
            f"{len(totals.failures)} failed, {totals.vacuous_share:.1%} vacuous",
            nl=False,
            err=True,
        )

    try:
        totals = campaign.run(planned, jobs=jobs, resume=resume, progress=progress)
    except campaign.OtherCampaign as error:
        raise click.ClickException(str(error)) from error
    click.echo("", err=True)
    for line in report.summary(totals):
        click.echo(line)
    if totals.failures:
        return 1
    if totals.seeds >= VACUOUS_SEEDS_MIN and totals.vacuous_share > VACUOUS_SHARE_MAX:
        click.echo(f"FAILED: {totals.vacuous_share:.1%} of the seeds were vacuous")
        return 1
    return 0
