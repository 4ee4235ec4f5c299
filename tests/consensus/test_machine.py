"""Both planes fit the interface the core drives."""

from tests.support.consensus_cluster import RegisterMachine

from borzoi.consensus.data_plane import DataPlane
from borzoi.consensus.machine import StateMachine


def test_the_machines_fit_the_interface():
    machines: list[StateMachine] = [
        RegisterMachine(),
        DataPlane(control_commit=lambda: 0, new_ids=lambda count: bytes(16 * count)),
    ]
    for machine in machines:
        machine.restore(0, ())
        assert machine.checkpoint(0)
