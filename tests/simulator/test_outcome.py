"""Outcomes add up, and the sums survive being written to a file."""

import json

from borzoi.simulator.outcome import CampaignTotals, Failure, RunOutcome


def outcome(seed: int, **changes) -> RunOutcome:
    values = {
        "seed": seed, "draw": f"seed={seed}", "digest": "d", "state_digest": "s", "ticks": 360_000,
        "events": 10, "wall_seconds": 0.5, "counters": {"commits": 20, "view_changes": 1},
        "faults": {"crash": 2},
    }  # fmt: skip
    return RunOutcome(**{**values, **changes})


def test_a_run_without_commits_or_view_changes_is_vacuous():
    assert not outcome(1).vacuous
    assert outcome(1, counters={"commits": 3, "view_changes": 1}).vacuous
    assert outcome(1, counters={"commits": 30}).vacuous


def test_a_failed_run_is_not_vacuous():
    assert not outcome(1, counters={}, failure=Failure("reads", "stale", 5)).vacuous


def test_totals_survive_json_and_merging():
    failed = outcome(2, failure=Failure("liveness", "stuck", 77))
    totals = CampaignTotals.of([outcome(1), failed, outcome(3, counters={})])
    again = CampaignTotals.from_dict(json.loads(json.dumps(totals.as_dict())))
    assert again.as_dict() == totals.as_dict()
    again.merge(totals)
    assert (again.seeds, again.simulated_hours, again.vacuous) == (6, 6.0, [3, 3])
    assert again.faults["crash"] == 12
    assert [failure["seed"] for failure in again.failures] == [2, 2]


def test_the_share_of_nothing_is_nothing():
    assert CampaignTotals().vacuous_share == 0.0


def test_a_failure_names_its_checker_and_time():
    assert Failure("reads", "stale", 5).line() == "reads at tick 5: stale"
