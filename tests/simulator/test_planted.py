"""The table of planted bugs itself."""

from borzoi.simulator.outcome import Failure
from borzoi.simulator.planted import PLANTED, SCRIPTED_ELSEWHERE, Detection, Planted, find


def test_no_switch_is_listed_twice():
    names = [planted.name for planted in PLANTED] + list(SCRIPTED_ELSEWHERE)
    assert len(names) == len(set(names))


def test_a_search_that_finds_nothing_says_so():
    calm = {"replicas": 3, "safety_ticks": 100, "clients": 1, "disturb_primary": 0}
    found = find(Planted("backoff_never_reset", "N9", calm, seeds=1))
    assert found.failure is None
    assert "NOT FOUND" in found.line()


def test_a_line_names_rule_checker_and_place():
    line = Detection("x", "N9", Failure("reads", "", 1), None, 1, 0.5).line()
    assert "reads" in line
    assert "scenario" in line
