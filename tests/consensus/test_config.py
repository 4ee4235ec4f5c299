from typing import Any

import pytest

from borzoi.consensus.config import Config, Timeouts
from borzoi.consensus.invariants import InvariantError


@pytest.mark.parametrize(
    "wrong",
    [
        {"cluster": b"short"},
        {"replica_id": 3},
        {"pipeline_max": 128},
        {"pipeline_max": 0},
        {"checkpoint_interval": -1},
        {"checkpoint_bytes": -1},
        {"checkpoint_ticks": -1},
        {"chunk_bytes": 64 * 1024 * 1024},
    ],
)
def test_a_configuration_that_cannot_work_is_refused(wrong):
    good: dict[str, Any] = {"cluster": bytes(16), "replica_id": 0, "replica_count": 3}
    Config(**good)
    with pytest.raises(InvariantError):
        Config(**(good | wrong))


def test_heartbeats_must_outlast_four_commit_broadcasts_and_two_leases():
    for wrong in ({"commit_message": 126}, {"lease": 251}):
        with pytest.raises(InvariantError):
            Timeouts(**wrong)
    assert Timeouts.fast().normal_heartbeat < Timeouts().normal_heartbeat
