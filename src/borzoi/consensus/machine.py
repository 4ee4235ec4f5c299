"""What a replica asks of the state machine it drives; injected, called synchronously.

The control plane is ``borzoi.metadata`` behind this interface, the data plane ``data_plane``.
"""

from typing import NamedTuple, Protocol

from borzoi.consensus.checkpoint import Artifact
from borzoi.consensus.messages import U128, Prepare


class AdmittedRequest(NamedTuple):
    """A request that passed preflight and waits to become an op."""

    client: U128
    request: int
    operation: int
    payload: bytes
    user_id: int


class StampedBody(NamedTuple):
    """The body of the op to be, and the partition whose queue it joins."""

    body: bytes
    partition: int


class OpResult(NamedTuple):
    status: int
    payload: bytes


class StateMachine(Protocol):
    def stamp(self, proposal: AdmittedRequest, timestamp: int) -> StampedBody | int:
        """Primary only, once per prepare: validate and stamp (N2, D3), or refuse with a status."""
        ...

    def forget_prepared(self) -> None:
        """Ops stamped but not applied are void: the prepared end is the applied end again."""
        ...

    def apply(self, header: Prepare, body: bytes) -> OpResult | None:
        """Execute a committed op; None when it must wait for the control plane (X1)."""
        ...

    def checkpoint(self, op: int) -> tuple[Artifact, ...]:
        """The applied state, byte-identical on every replica for the same op."""
        ...

    def restore(self, op: int, artifacts: tuple[Artifact, ...]) -> None:
        """Become the state of a checkpoint; op 0 without artifacts is the pristine state."""
        ...
