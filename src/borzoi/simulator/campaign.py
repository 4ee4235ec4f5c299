"""Many seeds on all cores, with progress, and a file from which a stopped campaign resumes.

#  the resume file: JSON lines
#  {"campaign": {"settings": …, "full_every": …, "chunk": …}}          first line: what is being run
#  {"chunk": FIRST_SEED, "totals": {…}}                                one line per finished chunk
"""

import json
import multiprocessing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from borzoi.model.value import Value
from borzoi.simulator.draws import draw
from borzoi.simulator.outcome import CampaignTotals, Failure, RunOutcome
from borzoi.simulator.simulation import simulate

CHUNK_SEEDS: Final = 20
# One seed in this many also runs with every frame and record as bytes, and must end the same.
FULL_EVERY: Final = 10


class OtherCampaign(ValueError):
    """The resume file belongs to a campaign with other settings."""


class Campaign(Value):
    """Seeds `first..last`, inclusive. `settings` override every draw."""

    first: int
    last: int
    settings: Mapping[str, float] = msgspec.field(default_factory=dict)
    bugs: tuple[str, ...] = ()
    full_every: int = FULL_EVERY
    chunk: int = CHUNK_SEEDS

    def chunks(self) -> list[range]:
        return [
            range(start, min(start + self.chunk, self.last + 1))
            for start in range(self.first, self.last + 1, self.chunk)
        ]

    def identity(self) -> dict[str, Any]:
        return {
            "settings": dict(sorted(self.settings.items())),
            "bugs": list(self.bugs),
            "full_every": self.full_every,
            "chunk": self.chunk,
            "first": self.first,
        }


def run_seed(
    seed: int, settings: Mapping[str, float], bugs: tuple[str, ...] = (), *, twice: bool = False
) -> RunOutcome:
    """One seed at fast fidelity; `twice` also at full, which must give the same digests."""
    chosen = draw(seed, settings)
    outcome = simulate(chosen, bugs=bugs)
    if not twice or outcome.failure is not None or chosen.full:
        return outcome
    full = simulate(chosen.changed(full=1), bugs=bugs)
    outcome = replace(outcome, wall_seconds=outcome.wall_seconds + full.wall_seconds)
    if full.failure is not None:
        return replace(outcome, failure=full.failure, draw=full.draw)
    if (full.digest, full.state_digest) != (outcome.digest, outcome.state_digest):
        message = f"fast digest {outcome.digest}, full digest {full.digest}"
        return replace(outcome, failure=Failure("fidelity", message, outcome.ticks))
    return outcome


def run_chunk(task: tuple[Campaign, range]) -> tuple[int, CampaignTotals]:
    campaign, seeds = task
    totals = CampaignTotals()
    for seed in seeds:
        full = bool(campaign.full_every) and seed % campaign.full_every == 0
        totals.add(run_seed(seed, campaign.settings, campaign.bugs, twice=full))
    return seeds[0], totals


def finished_chunks(campaign: Campaign, resume: Path | None) -> dict[int, CampaignTotals]:
    if resume is None or not resume.exists():
        return {}
    done: dict[int, CampaignTotals] = {}
    for text in resume.read_text().splitlines():
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            continue  # the last line of a campaign that was killed while writing it
        if "campaign" in line and line["campaign"] != campaign.identity():
            raise OtherCampaign(f"{resume} holds {line['campaign']}, not {campaign.identity()}")
        if "chunk" in line:
            done[line["chunk"]] = CampaignTotals.from_dict(line["totals"])
    return done


def _results(
    campaign: Campaign, todo: list[range], jobs: int
) -> Iterator[tuple[int, CampaignTotals]]:
    tasks = [(campaign, seeds) for seeds in todo]
    if jobs == 1:
        yield from map(run_chunk, tasks)
        return
    # Spawned, not forked: the workers import the simulator fresh and inherit nothing.
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(run_chunk, tasks)


def run(
    campaign: Campaign,
    *,
    jobs: int = 1,
    resume: Path | None = None,
    progress: Callable[[CampaignTotals, int], None] | None = None,
    stop_at_failure: bool = False,
) -> CampaignTotals:
    """Runs what is not finished yet. `progress(totals so far, seeds of the whole campaign)`."""
    chunks = campaign.chunks()
    done = finished_chunks(campaign, resume)
    totals = CampaignTotals()
    for seeds in chunks:
        if seeds[0] in done:
            totals.merge(done[seeds[0]])
    if resume is not None and not resume.exists():
        resume.write_text(json.dumps({"campaign": campaign.identity()}) + "\n")
    todo = [seeds for seeds in chunks if seeds[0] not in done]
    for first, chunk_totals in _results(campaign, todo, jobs):
        totals.merge(chunk_totals)
        if resume is not None:
            with resume.open("a") as file:
                file.write(json.dumps({"chunk": first, "totals": chunk_totals.as_dict()}) + "\n")
        if progress is not None:
            progress(totals, campaign.last - campaign.first + 1)
        if stop_at_failure and totals.failures:
            break
    return totals
