"""What a node does for clients: takes their calls, remembers pending ones, grants reads.

A node that does not lead may pass a call on to the one that does, as one replica to another (C4);
the answer comes back the same way.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from borzoi.consensus import effects as fx
from borzoi.consensus.config import Config
from borzoi.consensus.frames import checksum, encode_frame
from borzoi.consensus.messages import HEADER_BYTES, UNSEALED, Command, Operation, Request
from borzoi.consensus.replica import Replica
from borzoi.model.limits import HEADER_BYTES as MESSAGE_HEADER_BYTES
from borzoi.simulator.auditor import Auditor
from borzoi.simulator.events import TICK_US, EventQueue
from borzoi.simulator.machines import DataMachine, Machine
from borzoi.simulator.network import Network
from borzoi.simulator.trace import Trace

USERS: Final = 3
POLLED: Final = 3
OPERATIONS: Final = frozenset(int(operation) for operation in Operation)
# Under a name of its own: looking up a member of an enum costs as much as a call.
UNKNOWN_SESSION: Final = fx.Refusal.UNKNOWN_SESSION
# What a named tuple's own constructor ends with.
_new: Final = tuple.__new__


class NodeCall(NamedTuple):
    """A client's request to a node."""

    group: int
    client: bytes
    epoch: int
    request: int
    operation: int
    payload: bytes
    forward: bool = False


class NodeAnswer(NamedTuple):
    """What a node tells a client; `status` None means the connection was closed."""

    group: int
    client: bytes
    request: int
    status: int | None
    payload: bytes


class ReadCall(NamedTuple):
    group: int
    level: str
    number: int
    floor: int


class ReadAnswer(NamedTuple):
    group: int
    level: str
    number: int
    floor: int
    granted: bool


class ServiceHost(Protocol):
    """The node as its service sees it."""

    number: int
    replicas: list[Replica]
    machines: list[Machine]

    @property
    def configs(self) -> Sequence[Config]: ...

    def input(self, group: int, method: Callable[..., Any], arguments: tuple[Any, ...]) -> None: ...


class RunContext(msgspec.Struct):
    """What all nodes of a run share."""

    events: EventQueue
    network: Network
    auditor: Auditor
    trace: Trace
    full: bool
    seed: int
    segment_bytes: int
    stopped: Callable[[Any, str], None]
    crashed_inside: Callable[[Any], None]


class Service:
    """One node's clients. Everything in here dies with the process."""

    def __init__(self, host: ServiceHost, around: RunContext) -> None:
        self._host = host
        self._events = around.events
        self._network = around.network
        self._auditor = around.auditor
        self._full = around.full
        self._waiters: dict[tuple[int, bytes, int], list[int]] = {}
        # Whether what is being answered was decided by another node.
        self.relaying = False
        self._reads: dict[int, tuple[int, ReadCall]] = {}

    def clear(self) -> None:
        self._waiters.clear()
        self._reads.clear()

    # -- requests ----------------------------------------------------------------------------------

    def call(self, source: int, call: NodeCall) -> None:
        host = self._host
        key = (call.group, call.client, call.request)
        waiters = self._waiters.setdefault(key, [])
        if source not in waiters:
            waiters.append(source)
        replica = host.replicas[call.group]
        if call.forward and call.operation in OPERATIONS and not replica.is_primary:
            leader = replica.primary_of(replica.view)
            if leader != host.number:
                self._forward(replica, leader, call)
                return
        user = user_of(call.client)
        asked = (call.client, call.request, call.operation, call.payload, user, call.epoch)
        host.input(call.group, replica.on_request, asked)

    def _forward(self, replica: Replica, leader: int, call: NodeCall) -> None:
        self._auditor.counters["requests forwarded"] += 1
        body_checksum = checksum(call.payload)
        # fmt: off
        header = Request(
            UNSEALED, body_checksum, replica.cluster, HEADER_BYTES + len(call.payload),
            replica.view, replica.release, Command.REQUEST.value, replica.replica_id, call.client,
            body_checksum, 0, call.request, call.operation, call.group, user_of(call.client),
            call.epoch,
        )
        # fmt: on
        frame = encode_frame(header, call.payload) if self._full else (header, call.payload)
        self._network.send(self._host.number, leader, frame)

    def reply(self, group: int, effect: fx.Respond) -> None:
        key = (group, effect.client, effect.request)
        host = self._host
        if effect.status == UNKNOWN_SESSION and not self.relaying:
            applied = host.replicas[group].commit_min
            sessions_max = host.configs[group].client_table_max
            self._auditor.forgotten(group, effect.client, sessions_max, applied)
        answer = _new(NodeAnswer, (group, *effect))
        for endpoint in self._waiters.pop(key, ()):
            self._network.send(host.number, endpoint, answer)

    def fail_waiters(self, group: int) -> None:
        number = self._host.number
        for key in [key for key in self._waiters if key[0] == group]:
            for endpoint in self._waiters.pop(key):
                self._network.send(number, endpoint, NodeAnswer(*key, None, b""))
        if group == 0:
            reads, self._reads = self._reads, {}
            for source, call in reads.values():
                self._finish_read(source, call, granted=False)

    # -- reads -------------------------------------------------------------------------------------

    def read(self, source: int, call: ReadCall) -> None:
        """Reads of a data group lean on the control group: same node, same view, one lease (D2)."""
        host = self._host
        if call.level == "prefix":
            self._answer_read(source, call)
        elif call.level == "lease":
            granted = host.replicas[0].may_read(self._events.now * TICK_US)
            self._finish_read(source, call, granted=granted)
        else:
            self._reads[call.number] = (source, call)
            host.input(0, self._read_linearizably, (call,))

    def _read_linearizably(self, call: ReadCall) -> None:
        if not self._host.replicas[0].on_linearizable_read(call.number):
            source, _ = self._reads.pop(call.number)
            self._finish_read(source, call, granted=False)

    def read_ready(self, token: int) -> None:
        asked = self._reads.pop(token, None)
        if asked is not None:
            self._finish_read(*asked, granted=True)

    def _finish_read(self, source: int, call: ReadCall, *, granted: bool) -> None:
        replicas = self._host.replicas
        if granted and (call.group == 0 or replicas[call.group].serves_reads(replicas[0].view)):
            self._answer_read(source, call)
        else:
            self._network.send(self._host.number, source, ReadAnswer(*call, granted=False))

    def _answer_read(self, source: int, call: ReadCall) -> None:
        host = self._host
        applied = host.replicas[call.group].commit_min
        self._auditor.read(call.group, call.level, applied, call.floor, host.number)
        machine = host.machines[call.group]
        if isinstance(machine, DataMachine):
            self._poll(call, machine)
        self._network.send(host.number, source, ReadAnswer(*call, granted=True))

    def _poll(self, call: ReadCall, machine: DataMachine) -> None:
        """Reads the newest messages of some partition, and holds them against what was minted."""
        keys = sorted(machine.partitions)
        if not keys:
            return
        key = keys[call.number % len(keys)]
        log = machine.partitions[key]
        start = max(log.first_offset, log.next_offset - POLLED)
        found = [bytes(message[MESSAGE_HEADER_BYTES:]) for message in log.read(start, POLLED)]
        self._auditor.polled(call.group, key, log.generation, start, found)


def user_of(client: bytes) -> int:
    """Clients act as one of a few users, always the same one."""
    return client[0] % USERS
