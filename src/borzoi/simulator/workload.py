"""The clients: what they ask for, whom they ask, and how badly they behave.

Each client registers a session per group, has one request in flight, resends it to another node
when no answer comes, and gives up its session when it is told to. Message payloads are unique over
the run (`client:number`), so a message that shows up twice or nowhere is visible. Names are few and
are deleted and created again, so numbers get reused.
"""

import struct
from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from borzoi.consensus.effects import Refusal
from borzoi.model.namespace import shard_of
from borzoi.model.namespace import unpack as unpack_namespace
from borzoi.simulator import operations as ops
from borzoi.simulator.auditor import Auditor
from borzoi.simulator.draws import Draw
from borzoi.simulator.events import EventQueue
from borzoi.simulator.network import Network
from borzoi.simulator.node import Answer, Call, ReadAnswer, ReadCall
from borzoi.simulator.randomness import happens, stream

STREAM_NAMES: Final = ("orders", "events", "audit", "trades", "metrics", "logs", "mail", "geo")
TOPIC_NAMES: Final = ("eu", "us", "asia", "test", "main")
GROUP_NAMES: Final = ("billing", "search")
KNOWN_PARTITIONS_MAX: Final = 24
IDLE_TICKS: Final = 1500
READ_LEVELS: Final = ("prefix", "lease", "linearizable")
EPOCH: Final = struct.Struct("<Q")


def group_of(namespace: int, data_groups: int) -> int:
    return 1 + shard_of(unpack_namespace(namespace), data_groups)


class Directory:
    """What the clients together know of the control plane, from answers they got."""

    def __init__(self) -> None:
        self.partitions: list[tuple[int, int]] = []
        self.ends: dict[tuple[int, int], int] = {}

    def created(self, partitions: list[list[int]]) -> None:
        self.partitions += [(one[0], one[1]) for one in partitions]
        del self.partitions[:-KNOWN_PARTITIONS_MAX]

    def pick(self, random: Random) -> tuple[int, int] | None:
        # Mostly recent ones; an old one now and then, which may be deleted by now.
        if not self.partitions:
            return None
        if happens(random, 0.85):
            return random.choice(self.partitions[-4:])
        return random.choice(self.partitions)


@dataclass(slots=True)
class Pending:
    """The request a client waits for."""

    call: Call
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
        self.pending: Pending | None = None
        self.follow_up: list[tuple[int, int, bytes]] = []
        self.wanted: tuple[int, int, bytes] | None = None
        self.abandoned: list[Call] = []
        self.target = world.random.randrange(world.draw.replicas)
        self.messages = 0
        self.dead = False

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
        if happens(random, world.draw.dead_clients):
            self._die()
        wanted = self.wanted or (
            self.follow_up.pop(0) if self.follow_up else world.next_request(self)
        )
        group, operation, payload = wanted
        if group not in self.epochs:
            self.wanted = wanted
            self._issue(group, ops.REGISTER, b"", 0)
            return
        self.wanted = None
        self.requests[group] = self.requests.get(group, 0) + 1
        request = self.requests[group]
        world.auditor.issued[group, self.identity, request] = self.epochs[group]
        self._issue(group, operation, payload, request)

    def _die(self) -> None:
        """The process is gone for good; another one takes its seat under a new identity."""
        self.world.counts["dead client"] += 1
        self.identity = (self.world.next_identity() << 16 | self.number).to_bytes(16, "little")
        self.epochs.clear()
        self.requests.clear()
        self.abandoned.clear()

    def _issue(self, group: int, operation: int, payload: bytes, request: int) -> None:
        call = Call(group, self.identity, self.epochs.get(group, 0), request, operation, payload)
        self.pending = Pending(call, self.world.events.now)
        self._transmit(call)

    def _transmit(self, call: Call) -> None:
        world = self.world
        world.network.send(self.endpoint, self.target, call)
        if happens(world.random, world.draw.resend_duplicates):
            world.counts["duplicate connection"] += 1
            world.network.send(self.endpoint, world.random.randrange(world.draw.replicas), call)
        world.events.after(world.draw.client_timeout, self._timeout, self.pending)

    def _timeout(self, pending: Pending) -> None:
        if self.pending is not pending or self.world.events.now < self._deadline(pending):
            return
        self._elsewhere(pending)

    def _deadline(self, pending: Pending) -> int:
        return pending.sent_at + self.world.draw.client_timeout

    def _elsewhere(self, pending: Pending) -> None:
        world = self.world
        if (
            pending.call.operation != ops.REGISTER
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

    def _abandon(self, pending: Pending) -> None:
        """Gives the session up with an unknown outcome: a zombie may bring the request back."""
        self.abandoned.append(pending.call)
        self.pending = None
        self.epochs.pop(pending.call.group, None)
        self.world.events.after(1, self.act, None)

    # -- being answered ----------------------------------------------------------------------------

    def receive(self, source: int, frame: Any) -> None:
        if type(frame) is ReadAnswer:
            self.world.counts["read granted" if frame.granted else "read refused"] += 1
            return
        answer: Answer = frame
        pending = self.pending
        if pending is None or (answer.group, answer.client, answer.request) != (
            pending.call.group,
            pending.call.client,
            pending.call.request,
        ):
            self._late(answer)
            return
        world = self.world
        if answer.status is None or answer.status in (Refusal.NOT_PRIMARY, Refusal.BUSY):
            if pending.retrying:
                return
            pending.retrying = True
            self.target = world.random.randrange(world.draw.replicas)
            delay = 1 + world.random.randrange(10)
            pending.sent_at = world.events.now + delay
            world.events.after(delay, self._again, pending)
            return
        self.target = source
        if pending.call.operation == ops.REGISTER:
            self._registered(pending, answer)
        elif answer.status in (Refusal.UNKNOWN_SESSION, Refusal.FENCED):
            # Evicted, or replaced by a duplicate Register of our own: start a new session. The
            # outcome of the request stays unknown, and it is never sent again.
            world.counts["session lost"] += 1
            self.pending = None
            self.epochs.pop(answer.group, None)
        else:
            self.pending = None
            self._done(pending.call, answer)
        world.events.after(world.thinking(), self.act, None)

    def _again(self, pending: Pending) -> None:
        if self.pending is pending:
            pending.retrying = False
            pending.sent_at = self.world.events.now
            self._transmit(pending.call)

    def _registered(self, pending: Pending, answer: Answer) -> None:
        self.pending = None
        if answer.status == 0:
            self.epochs[answer.group] = EPOCH.unpack(answer.payload)[0]

    def _late(self, answer: Answer) -> None:
        """An answer to a request that is over: still a promise, so it is checked like any other."""
        if answer.request and answer.status is not None and answer.status < 1 << 31:
            self.world.check(answer)

    def _done(self, call: Call, answer: Answer) -> None:
        if answer.status is None or answer.status >= 1 << 31:
            self.world.counts[f"refused: {Refusal(answer.status or 0).name}"] += 1
            return
        self.world.check(answer)
        self.world.learn(self, call, answer)


class Workload:
    """All clients of a run and the mix they draw from."""

    def __init__(
        self,
        draw: Draw,
        events: EventQueue,
        network: Network,
        auditor: Auditor,
    ) -> None:
        self.draw = draw
        self.events = events
        self.network = network
        self.auditor = auditor
        self.random = stream(draw.seed, "workload")
        self.directory = Directory()
        self.counts: Counter[str] = Counter()
        self.quiet = False
        self.acknowledged = [0] * (draw.data_groups + 1)
        self._reads = 0
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
        """Whoever has nothing in flight asks again: the run needs work to show progress."""
        for client in self.clients:
            self.events.after(1 + self.random.randrange(20), client.act, None)

    # -- checking ----------------------------------------------------------------------------------

    def check(self, answer: Answer) -> None:
        status = answer.status
        # Every op answers with at least its status; nothing at all means refused without an op.
        if status is None or not answer.payload:
            return
        self.auditor.replied(answer.group, answer.client, answer.request, status, answer.payload)
        self.acknowledged[answer.group] += 1

    def learn(self, client: Client, call: Call, answer: Answer) -> None:
        """Draws conclusions from an answer: new partitions, and what has to follow a decision."""
        if answer.status != ops.Status.OK or not answer.payload:
            return
        _, value = ops.read_reply(answer.payload)
        if call.operation in (ops.CREATE_TOPIC, ops.CREATE_PARTITIONS):
            self.directory.created(value)
        elif call.operation in (ops.DELETE_STREAM, ops.DELETE_TOPIC, ops.DELETE_PARTITIONS):
            client.follow_up += [
                (self._group(one[0]), ops.FORGET_PARTITION, ops.data_body(one[0], one[1], 0))
                for one in value
            ]
        elif call.operation in (ops.PURGE_STREAM, ops.PURGE_TOPIC):
            client.follow_up += [
                (self._group(one[0]), ops.PURGE_PARTITION, ops.data_body(one[0], one[1], one[2]))
                for one in value
            ]
        elif call.operation == ops.SEND_MESSAGES:
            descriptor = ops.unpack(call.payload)
            key = (descriptor.namespace, descriptor.incarnation)
            self.directory.ends[key] = value + descriptor.count
        del client.follow_up[16:]

    def _group(self, namespace: int) -> int:
        return group_of(namespace, self.draw.data_groups)

    # -- the mix -----------------------------------------------------------------------------------

    def ask_read(self, client: Client) -> None:
        self._reads += 1
        group = self.random.randrange(self.draw.data_groups + 1)
        level = self.random.choice(READ_LEVELS)
        floor = self.auditor.groups[group].replied_op
        target = client.target if happens(self.random, 0.7) else None
        if target is None:
            target = self.random.randrange(self.draw.replicas)
        self.network.send(client.endpoint, target, ReadCall(group, level, self._reads, floor))

    def next_request(self, client: Client) -> tuple[int, int, bytes]:
        partition = self.directory.pick(self.random)
        if happens(self.random, self.draw.invalid):
            self.counts["invalid request"] += 1
            return self._invalid(partition)
        if partition is None or happens(self.random, self.draw.control_share):
            return (0, *self._control(partition is None))
        return self._data(client, *partition)

    def _invalid(self, partition: tuple[int, int] | None) -> tuple[int, int, bytes]:
        if partition is None or happens(self.random, 0.5):
            bodies = (b"", b"\xc1", ops.control_body(1, 2), ops.control_body("a", "b", "c"))
            return 0, self.random.choice(ops.CONTROL), self.random.choice(bodies)
        namespace, incarnation = partition
        group = self._group(namespace)
        body = ops.data_body(namespace, incarnation, 1 << 40)
        return group, ops.STORE_OFFSET, body

    def _control(self, bare: bool) -> tuple[int, bytes]:
        random = self.random
        stream_name, topic = random.choice(STREAM_NAMES), random.choice(TOPIC_NAMES)
        roll = random.random()
        if roll < 0.25 or (bare and roll < 0.4):
            return ops.CREATE_STREAM, ops.control_body(stream_name)
        if roll < 0.6 or bare:
            return ops.CREATE_TOPIC, ops.control_body(stream_name, topic, random.randint(1, 3))
        if roll < 0.68:
            return ops.CREATE_PARTITIONS, ops.control_body(stream_name, topic, random.randint(1, 2))
        if roll < 0.76:
            operation = random.choice((ops.CREATE_GROUP, ops.DELETE_GROUP))
            return operation, ops.control_body(stream_name, topic, random.choice(GROUP_NAMES))
        if roll < 0.9 and self.draw.deletes:
            return random.choice(
                (
                    (ops.DELETE_STREAM, ops.control_body(stream_name)),
                    (ops.DELETE_TOPIC, ops.control_body(stream_name, topic)),
                    (ops.DELETE_PARTITIONS, ops.control_body(stream_name, topic, 1)),
                )
            )
        if self.draw.purges:
            return random.choice(
                (
                    (ops.PURGE_STREAM, ops.control_body(stream_name)),
                    (ops.PURGE_TOPIC, ops.control_body(stream_name, topic)),
                )
            )
        return ops.CREATE_STREAM, ops.control_body(stream_name)

    def _data(self, client: Client, namespace: int, incarnation: int) -> tuple[int, int, bytes]:
        random = self.random
        group = self._group(namespace)
        end = self.directory.ends.get((namespace, incarnation), 0)
        roll = random.random()
        if roll < 0.15 and self.draw.offsets and end:
            consumer = random.randrange(3)
            if happens(random, 0.2):
                body = ops.data_body(namespace, incarnation, 0, consumer)
                return group, ops.DELETE_OFFSET, body
            body = ops.data_body(namespace, incarnation, random.randrange(end), consumer)
            return group, ops.STORE_OFFSET, body
        if roll < 0.2 and self.draw.truncates and end:
            body = ops.data_body(namespace, incarnation, random.randrange(end))
            return group, ops.TRUNCATE_PARTITION, body
        payloads = []
        for _ in range(random.randint(1, 3)):
            client.messages += 1
            unique = f"{int.from_bytes(client.identity, 'little')}:{client.messages}|".encode()
            payloads.append(unique + b"x" * random.randrange(self.draw.payload_max))
        return group, ops.SEND_MESSAGES, ops.send_body(namespace, incarnation, payloads)
