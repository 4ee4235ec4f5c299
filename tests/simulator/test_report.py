"""The summary says how much was run, what happened, and what failed."""

from borzoi.simulator.outcome import CampaignTotals, Failure, RunOutcome
from borzoi.simulator.report import failure_lines, number, summary, table


def totals(failures: int = 0) -> CampaignTotals:
    sums = CampaignTotals()
    for seed in range(4):
        failure = Failure("liveness", "stuck", 9) if seed < failures else None
        sums.add(
            RunOutcome(seed, f"seed={seed}", "d", "s", 6000, 100, 0.1, failure,
                    {"commits": 1200, "view_changes": 2, "acknowledgements": 7}, {"crash": 3})
        )  # fmt: skip
    return sums


def test_figures_are_grouped():
    assert number(1234567) == "1,234,567"
    assert number(1234.56) == "1,234.6"


def test_a_table_lines_up():
    lines = table([("a", "1"), ("long name", "22,000")], ("what", "n"))
    assert len({len(line) for line in lines}) == 1


def test_the_summary_has_the_figures_of_the_campaign():
    text = "\n".join(summary(totals()))
    for part in ("seeds", "simulated hours", "4,800", "view changes", "crash", "acknowledgements"):
        assert part in text
    assert "FAILED" not in text


def test_failures_come_with_seed_and_draw():
    text = "\n".join(summary(totals(failures=2)))
    assert "FAILED seed 0: liveness at tick 9" in text
    assert "draw: seed=1" in text


def test_many_failures_are_counted_not_listed():
    sums = CampaignTotals()
    sums.failures = [
        {"seed": seed, "draw": "", "kind": "reads", "message": "", "tick": 1} for seed in range(25)
    ]
    assert failure_lines(sums)[-1] == "and 5 more"
