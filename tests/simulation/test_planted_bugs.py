"""Every rule that a planted bug breaks is watched: the search or a script finds the damage."""

import os
from pathlib import Path

import pytest
from tests.support.interpreter import run_python

from borzoi.simulator.draws import draw
from borzoi.simulator.outcome import Failure
from borzoi.simulator.planted import PLANTED, SCRIPTED_ELSEWHERE, Detection, find
from borzoi.simulator.planting import BUGS
from borzoi.simulator.simulation import Simulation

ROOT = Path(__file__).resolve().parents[2]
SECONDS_MAX = 300
BY_NAME = {planted.name: planted for planted in PLANTED}
# Found within a second or two; the others belong to the long tier.
QUICK = (
    "view_not_persisted", "suffix_not_persisted", "ack_before_fsync", "ack_before_superblock",
    "ack_skips_hole", "own_ack_before_fsync", "stamped_from_applied_end", "lease_never_lapses",
    "amnesia_rejoin", "view_change_quorum_minus_one", "replication_quorum_minus_one",
    "start_view_without_suffix", "duplicate_request_executed", "client_table_not_in_checkpoint",
    "truncate_before_checkpoint_durable", "join_first_vote", "genesis_with_majority",
    "old_heartbeat_accepted", "timestamp_from_local_clock",
)  # fmt: skip
table: list[Detection] = []


def hunt(name: str) -> Detection:
    found = find(BY_NAME[name])
    table.append(found)
    assert found.failure is not None, f"{name} was not found in {found.tried} runs"
    return found


def still_fine_without_it(found: Detection) -> None:
    """The objection is to the planted bug, not to the draw."""
    planted = BY_NAME[found.name]
    if planted.scenario is not None:
        assert planted.scenario(()) is None
    else:
        assert Simulation(draw(found.seed or 0, planted.settings)).run() is None


@pytest.mark.parametrize("name", QUICK)
def test_a_broken_rule_is_noticed_at_once(name):
    still_fine_without_it(hunt(name))


@pytest.mark.simulation
@pytest.mark.parametrize("name", [name for name in BY_NAME if name not in QUICK])
def test_a_broken_rule_is_found_by_search(name):
    still_fine_without_it(hunt(name))


@pytest.mark.simulation
@pytest.mark.parametrize("name", SCRIPTED_ELSEWHERE)
def test_a_broken_rule_is_shown_by_its_own_test(name):
    """Such a test runs with the bug, which must do the damage, and without it."""
    rule, script = SCRIPTED_ELSEWHERE[name]
    began = children_times()
    done = run_python("-m", "pytest", "-q", "-p", "no:cacheprovider", script, cwd=ROOT)
    assert done.returncode == 0, done.stdout
    assert name in (ROOT / script.partition("::")[0]).read_text()
    shown = Failure("script", script, 0)
    table.append(Detection(name, rule, shown, None, 1, children_times() - began, script))


def children_times() -> float:
    times = os.times()
    return times.children_user + times.children_system


def test_every_bug_is_looked_for():
    assert set(BY_NAME) | set(SCRIPTED_ELSEWHERE) == set(BUGS)
    assert not set(BY_NAME) & set(SCRIPTED_ELSEWHERE)
    assert len(BY_NAME) >= 20


@pytest.mark.simulation
def test_the_table_has_a_row_for_every_bug_and_each_took_less_than_five_minutes(capsys):
    with capsys.disabled():
        print()
        for found in table:
            print(found.line())
    assert {found.name for found in table} == set(BUGS)
    assert all(found.failure is not None and found.seconds < SECONDS_MAX for found in table)
