"""Scripted scenarios: no checker reports anything while the rules are kept."""

import pytest

from borzoi.simulator import scenarios


@pytest.mark.parametrize(
    "scenario",
    [
        scenarios.half_deaf_replica,
        scenarios.replayed_heartbeats,
        scenarios.genesis_without_everyone,
        scenarios.reordered_prepares,
        scenarios.lease_of_a_cut_off_leader,
        scenarios.foreign_disks,
    ],
)
def test_with_all_rules_kept_nothing_goes_wrong(scenario):
    assert scenario(()) is None
