"""The clients: what they request, from which node, and how badly they behave.

Each client registers a session per group, has one request in flight, resends it to another node
when no answer comes, and gives up its session when the node says so. What it asks for is in `mix`.
"""

import struct
from collections import Counter
from typing import Any, Final

import msgspec

from borzoi.consensus.effects import Refusal
from borzoi.consensus.messages import ZERO, Operation
from borzoi.consensus.partition_ops import decode_batch
from borzoi.simulator import operations as ops
from borzoi.simulator.draws import Draw
from borzoi.simulator.mix import Mix, Request
from borzoi.simulator.network import Corrupted
from borzoi.simulator.randomness import happens, stream
from borzoi.simulator.service import NodeAnswer, NodeCall, ReadAnswer, ReadCall, RunContext

IDLE_TICKS: Final = 1500
READ_LEVELS: Final = ("prefix", "lease", "linearizable")
EPOCH: Final = struct.Struct("<Q")
FOLLOW_UPS_MAX: Final = 16
# Under names of their own: looking up a member of an enum costs as much as a call.
REGISTER: Final = Operation.REGISTER
TRY_AGAIN: Final = (Refusal.NOT_PRIMARY, Refusal.BUSY)
SESSION_GONE: Final = (Refusal.UNKNOWN_SESSION, Refusal.FENCED)
CREATIONS: Final = frozenset({Operation.CREATE_TOPIC, Operation.CREATE_PARTITIONS})
# What a named tuple's own constructor ends with.
_new: Final = tuple.__new__
PURGES: Final = frozenset({Operation.PURGE_STREAM, Operation.PURGE_TOPIC})


class PendingCall(msgspec.Struct):
    """The request a client waits for."""

    call: NodeCall
    sent_at: int
    attempts: int = 1
    # Refusals may arrive twice; only one of them may lead to another try.
    retrying: bool = False


class Client:
    """One client; `group` sessions are opened when first needed."""

    def __init__(self, number: int, endpoint: int, world: "Workload") -> None:
        self.number = number
        self.endpoint = endpoint
        self.identity = (0x1000 + number).to_bytes(16, "little")
        self.world = world
        self.epochs: dict[int, int] = {}
        self.requests: dict[int, int] = {}
        self.pending: PendingCall | None = None
        self.follow_up: list[Request] = []
        self.wanted: Request | None = None
        self.abandoned: list[NodeCall] = []
        # The last send that was answered.
        self.sent: NodeCall | None = None
        self.target = world.random.randrange(world.draw.replicas)
        self.dead = False

    @property
    def name(self) -> int:
        return int.from_bytes(self.identity, "little")

    # -- asking ------------------------------------------------------------------------------------

    def act(self, _: object = None) -> None:
        """Think over: the next request, unless one is still open or the run winds down."""
        if self.pending is not None or self.dead:
            return
        world = self.world
        if world.quiet:
            return
        random = world.random
        if happens(random, world.draw.reads):
            world.ask_read(self)
        if self.abandoned and happens(random, world.draw.zombies * 10):
            # The former holder of this identity wakes up and repeats itself under its old epoch.
            world.counts["zombie request"] += 1
            zombie = self.abandoned.pop()
            world.network.send(self.endpoint, random.randrange(world.draw.replicas), zombie)
        if happens(random, world.draw.housekeeping):
            world.keep_house(self)
        if self.sent is not None and happens(random, world.draw.reused_requests):
            world.counts["reused request number"] += 1
            self.world.network.send(self.endpoint, self.target, other_content(self.sent))
        leaves = False
        if happens(random, world.draw.dead_clients):
            leaves = happens(random, 0.5) and bool(self.epochs)
            if not leaves:
                self._die()
        if leaves:
            world.counts["session ended"] += 1
            self.follow_up.insert(0, (min(self.epochs), Operation.UNREGISTER, b""))
        wanted = self.wanted or (
            self.follow_up.pop(0)
            if self.follow_up
            else world.mix.next_request(int.from_bytes(self.identity, "little"))
        )
        group, operation, payload = wanted
        if group not in self.epochs:
            self.wanted = wanted
            self._issue(group, Operation.REGISTER, b"", 0)
            return
        self.wanted = None
        self.requests[group] = self.requests.get(group, 0) + 1
        request = self.requests[group]
        world.auditor.issued[group, self.identity, request] = self.epochs[group]
        self._issue(group, operation, payload, request)

    def _die(self) -> None:
        """The process has died for good; another one replaces it under a new identity."""
        self.world.counts["dead client"] += 1
        self.identity = (self.world.next_identity() << 16 | self.number).to_bytes(16, "little")
        self.epochs.clear()
        self.requests.clear()
        self.abandoned.clear()

    def _issue(self, group: int, operation: int, payload: bytes, request: int) -> None:
        epoch = self.epochs.get(group, 0)
        forward = happens(self.world.random, self.world.draw.forwarding)
        call = _new(NodeCall, (group, self.identity, epoch, request, operation, payload, forward))
        self.pending = PendingCall(call, self.world.events.now)
        self._transmit(call)

    def _transmit(self, call: NodeCall) -> None:
        world = self.world
        world.network.send(self.endpoint, self.target, call)
        if happens(world.random, world.draw.resend_duplicates):
            world.counts["duplicate connection"] += 1
            world.network.send(self.endpoint, world.random.randrange(world.draw.replicas), call)
        world.events.after(world.draw.client_timeout, self._timeout, self.pending)

    def _timeout(self, pending: PendingCall) -> None:
        if self.pending is not pending or self.world.events.now < self._deadline(pending):
            return
        self._elsewhere(pending)

    def _deadline(self, pending: PendingCall) -> int:
        return pending.sent_at + self.world.draw.client_timeout

    def _elsewhere(self, pending: PendingCall) -> None:
        world = self.world
        if (
            pending.call.operation != Operation.REGISTER
            and pending.attempts > 3
            and happens(world.random, world.draw.zombies)
        ):
            self._abandon(pending)
            return
        pending.attempts += 1
        pending.sent_at = world.events.now
        world.counts["resend"] += 1
        self.target = world.random.randrange(world.draw.replicas)
        self._transmit(pending.call)

    def _abandon(self, pending: PendingCall) -> None:
        """Gives the session up with an unknown outcome: a zombie may bring the request back."""
        self.abandoned.append(pending.call)
        self.pending = None
        self.epochs.pop(pending.call.group, None)
        self.world.events.after(1, self.act, None)

    # -- being answered ----------------------------------------------------------------------------

    def receive(self, source: int, frame: Any) -> None:
        if type(frame) is Corrupted:
            return
        if type(frame) is ReadAnswer:
            self.world.counts["read granted" if frame.granted else "read refused"] += 1
            return
        answer: NodeAnswer = frame
        pending = self.pending
        if pending is None or not is_answer_to(answer, pending.call):
            self._late(answer)
            return
        world = self.world
        if answer.status is None or answer.status in TRY_AGAIN:
            if pending.retrying:
                return
            pending.retrying = True
            self.target = world.random.randrange(world.draw.replicas)
            delay = 1 + world.random.randrange(10)
            pending.sent_at = world.events.now + delay
            world.events.after(delay, self._again, pending)
            return
        self.target = source
        if pending.call.operation == REGISTER:
            self._registered(pending, answer)
        elif answer.status in SESSION_GONE:
            # Evicted, or replaced by a duplicate Register of our own: start a new session. The
            # outcome of the request stays unknown, and it is never sent again.
            world.counts["session lost"] += 1
            self.pending = None
            self.epochs.pop(answer.group, None)
        else:
            self.pending = None
            self._done(pending.call, answer)
        world.events.after(world.thinking(), self.act, None)

    def _again(self, pending: PendingCall) -> None:
        if self.pending is pending:
            pending.retrying = False
            pending.sent_at = self.world.events.now
            self._transmit(pending.call)

    def _registered(self, pending: PendingCall, answer: NodeAnswer) -> None:
        self.pending = None
        if answer.status == 0:
            self.epochs[answer.group] = EPOCH.unpack(answer.payload)[0]

    def _late(self, answer: NodeAnswer) -> None:
        """An answer to a request that is over: still a promise, so it is checked like any other."""
        if answer.client == ZERO:
            return
        if answer.request and answer.status is not None and answer.status < 1 << 31:
            self.world.check(answer)

    def _done(self, call: NodeCall, answer: NodeAnswer) -> None:
        if answer.status is None or answer.status >= 1 << 31:
            self.world.counts[f"refused: {Refusal(answer.status or 0).name}"] += 1
            return
        self.world.check(answer)
        self.world.learn(self, call, answer)
        if call.operation == Operation.SEND_MESSAGES and answer.status == ops.OK:
            self.sent = call


def other_content(call: NodeCall) -> NodeCall:
    """A client that lost count: another send under a number that was used and answered."""
    decoded = decode_batch(call.payload)
    if decoded is None:
        return call
    sent = decoded[0]
    body = ops.send_body(sent.namespace, sent.incarnation, [b"under a used number"])
    return call._replace(payload=body, forward=False)


def is_answer_to(answer: NodeAnswer, call: NodeCall) -> bool:
    return (
        answer.request == call.request
        and answer.client == call.client
        and answer.group == call.group
    )


class Workload:
    """All clients of a run."""

    def __init__(self, draw: Draw, around: RunContext) -> None:
        self.draw = draw
        self.events = around.events
        self.network = around.network
        self.auditor = around.auditor
        self.random = stream(draw.seed, "workload")
        self.counts: Counter[str] = Counter()
        self.mix = Mix(draw, self.random, self.counts)
        self.quiet = False
        self.acknowledged = [0] * (draw.data_groups + 1)
        self._reads = 0
        self._housekeeping = 0
        self._identities = 0
        self.clients = [
            Client(number, draw.replicas + number, self) for number in range(draw.clients)
        ]

    def begin(self) -> None:
        for client in self.clients:
            self.events.after(1 + self.random.randrange(20), client.act, None)

    def next_identity(self) -> int:
        self._identities += 1
        return self._identities

    def thinking(self) -> int:
        if self.draw.idle_every and happens(self.random, 0.002):
            self.counts["idle spell"] += 1
            return IDLE_TICKS
        return 1 + int(self.random.expovariate(1.0) * self.draw.think_ticks)

    def wake(self) -> None:
        """Idle clients ask again: the run needs work to show progress."""
        for client in self.clients:
            self.events.after(1 + self.random.randrange(20), client.act, None)

    # -- checking ----------------------------------------------------------------------------------

    def check(self, answer: NodeAnswer) -> None:
        status = answer.status
        if status is None:
            return
        op = self.auditor.replied(
            answer.group, answer.client, answer.request, status, answer.payload
        )
        if op is not None:
            self.acknowledged[answer.group] += 1

    def learn(self, client: Client, call: NodeCall, answer: NodeAnswer) -> None:
        """Draws conclusions from an answer: new partitions, and what has to follow a decision."""
        if answer.status != ops.OK:
            return
        if call.operation == Operation.UNREGISTER:
            client.epochs.pop(call.group, None)
            return
        if call.group:
            if call.operation == Operation.SEND_MESSAGES:
                self._sent(call)
            return
        rows = ops.read_rows(answer.payload)
        if call.operation in CREATIONS:
            self.mix.directory.created(rows)
            return
        purged = call.operation in PURGES
        operation = Operation.PURGE_PARTITION if purged else Operation.FORGET_PARTITION
        for row in rows:
            body = ops.data_body(row.namespace, row.incarnation, row.generation if purged else 0)
            client.follow_up.append((self.mix.group(row.namespace), operation, body))
        del client.follow_up[FOLLOW_UPS_MAX:]

    def _sent(self, call: NodeCall) -> None:
        decoded = decode_batch(call.payload)
        if decoded is not None:
            key = (decoded[0].namespace, decoded[0].incarnation)
            ends = self.mix.directory.ends
            ends[key] = ends.get(key, 0) + decoded[0].messages_count

    def keep_house(self, client: Client) -> None:
        """Retention: a node asks for itself, without a session, and does not wait for the end."""
        partition = self.mix.directory.pick(self.random)
        end = self.mix.directory.ends.get(partition, 0) if partition is not None else 0
        if partition is None or not end:
            return
        self.counts["housekeeping"] += 1
        self._housekeeping += 1
        body = ops.data_body(*partition, self.random.randrange(end))
        call = NodeCall(
            self.mix.group(partition[0]), ZERO, 0, self._housekeeping,
            Operation.TRUNCATE_PARTITION, body,
        )  # fmt: skip
        self.network.send(client.endpoint, client.target, call)

    # -- reading -----------------------------------------------------------------------------------

    def ask_read(self, client: Client) -> None:
        self._reads += 1
        group = self.random.randrange(self.draw.data_groups + 1)
        level = self.random.choice(READ_LEVELS)
        floor = self.auditor.groups[group].replied_op
        target = client.target if happens(self.random, 0.7) else None
        if target is None:
            target = self.random.randrange(self.draw.replicas)
        self.network.send(client.endpoint, target, ReadCall(group, level, self._reads, floor))
