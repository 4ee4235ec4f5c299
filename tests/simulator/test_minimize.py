"""A failing draw gets simpler as long as it fails the same way."""

from borzoi.simulator.draws import Draw, draw
from borzoi.simulator.minimize import candidates, minimize
from borzoi.simulator.outcome import Failure, RunOutcome


def runner(fails):
    """A stand-in for the simulation that fails when `fails(draw)` says so."""

    def run(chosen: Draw, *, bugs=()) -> RunOutcome:
        kind = fails(chosen)
        failure = Failure(kind, "", min(500, chosen.safety_ticks - 1)) if kind else None
        return RunOutcome(chosen.seed, chosen.line(), "", "", 1, 1, 0.0, failure)

    return run


def busy() -> Draw:
    return Draw(
        seed=3, replicas=5, clients=8, loss=0.2, crash_every=100, rot_every=50, pipeline_max=32
    )


def test_only_what_the_failure_needs_is_left():
    chosen, outcome = minimize(
        busy(), run=runner(lambda one: "reads" if one.crash_every and one.clients >= 2 else None)
    )
    assert outcome.failure is not None
    assert chosen.crash_every == 100
    assert (chosen.loss, chosen.rot_every, chosen.replicas, chosen.clients) == (0, 0, 1, 2)
    assert chosen.safety_ticks <= 501


def test_another_failure_does_not_count():
    chosen, _ = minimize(busy(), run=runner(lambda one: "reads" if one.loss else "liveness"))
    assert chosen.loss == 0.2


def test_a_draw_that_does_not_fail_is_left_alone():
    chosen, outcome = minimize(busy(), run=runner(lambda one: None))
    assert chosen == busy()
    assert outcome.failure is None


def test_every_candidate_is_a_change():
    chosen = draw(12)
    assert all(chosen.changed(**change) != chosen for change in candidates(chosen, 100))


def test_progress_is_told():
    seen: list[Draw] = []
    minimize(busy(), run=runner(lambda one: "reads"), progress=seen.append)
    assert seen
