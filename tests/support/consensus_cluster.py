"""A handful of replicas joined in memory, for scripted scenarios of the protocol.

Everything happens when the script says so: frames wait in one queue, journal and superblock writes
wait on a simulated disk until ``sync``, time moves by ``tick``. ``settle`` runs all of it until
nothing is left to do. The seeded simulator is another thing (``borzoi.simulator``).
"""

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple, TypeVar

from tests.support.planted_bugs import plant_bugs

from borzoi.consensus import effects as out
from borzoi.consensus.checkpoint import Artifact, Checkpoint
from borzoi.consensus.config import Config, Timeouts
from borzoi.consensus.journal import Gap, JournalRecord, JournalScan
from borzoi.consensus.machine import AdmittedRequest, OpResult, StampedBody, StateMachine
from borzoi.consensus.messages import ZERO, Header, Operation, Prepare
from borzoi.consensus.recovery import Restored
from borzoi.consensus.replica import Replica
from borzoi.consensus.superblock import Empty, Superblock, Unreadable, genesis

H = TypeVar("H")

CLUSTER = b"borzoi-test-cell"
SETTLE_STEPS_MAX = 100_000


def client_id(number: int) -> bytes:
    return number.to_bytes(16, "little")


class RegisterMachine:
    """The smallest state machine: remembers every payload applied, in order."""

    def __init__(self) -> None:
        self.applied: list[bytes] = []

    def stamp(self, proposal: AdmittedRequest, timestamp: int) -> StampedBody | int:
        if proposal.payload == b"refuse":
            return 7
        return StampedBody(proposal.payload, proposal.payload[0] if proposal.payload else 0)

    def forget_prepared(self) -> None:
        pass

    def apply(self, header: Prepare, body: bytes) -> OpResult | None:
        self.applied.append(body)
        return OpResult(0, len(self.applied).to_bytes(4, "little"))

    def checkpoint(self, op: int) -> tuple[Artifact, ...]:
        return (Artifact(1, op, b"\n".join(self.applied)),)

    def restore(self, op: int, artifacts: tuple[Artifact, ...]) -> None:
        content = b"".join(artifact.content for artifact in artifacts)
        self.applied = content.split(b"\n") if content else []


class Pending(NamedTuple):
    """A journal record handed over and not yet synced."""

    token: int
    header: Prepare
    body: bytes


class Disk:
    """What survives a crash, and what is still on its way."""

    def __init__(self) -> None:
        self.superblock: Superblock | Empty | Unreadable = Empty()
        self.records: list[tuple[Prepare, bytes, bool]] = []
        self.gaps: list[Gap] = []
        self.checkpoints: dict[int, Checkpoint] = {}
        self.pending: list[Pending] = []
        self.pending_superblock: tuple[Superblock, int] | None = None

    def lose_unsynced(self) -> None:
        self.pending.clear()
        self.pending_superblock = None

    def scan(self) -> JournalScan:
        records = tuple(JournalRecord(header, good) for header, _, good in self.records)
        return JournalScan(records, tuple(self.gaps))

    def rot_body(self, op: int) -> None:
        """The body of an op's newest record becomes unreadable; its header stays."""
        for index in range(len(self.records) - 1, -1, -1):
            header, body, _ = self.records[index]
            if header.op == op:
                self.records[index] = (header, body, False)
                return
        raise KeyError(op)

    def rot_header(self, op: int, *, trailer_too: bool = False) -> None:
        """A record becomes a gap, which its trailer names unless that rots as well."""
        index = next(i for i, (header, _, _) in enumerate(self.records) if header.op == op)
        header = self.records.pop(index)[0]
        if trailer_too:
            self.gaps.append(Gap(index))
        else:
            self.gaps.append(Gap(index, header.op, header.checksum, header.view))


class ScriptedCluster:
    """n replicas of one group, and a script that decides which frames arrive."""

    def __init__(
        self,
        replica_count: int = 3,
        *,
        group: int = 0,
        formatted: bool = True,
        pipeline_max: int = 8,
        checkpoint_interval: int = 960,
        retain_ops: int = 1024,
        machine: Callable[[], StateMachine] = RegisterMachine,
        chunk_bytes: int = 16,
        seed: int = 1,
    ) -> None:
        self.configs = [
            Config(
                cluster=CLUSTER,
                replica_id=replica,
                replica_count=replica_count,
                group=group,
                pipeline_max=pipeline_max,
                checkpoint_interval=checkpoint_interval,
                retain_ops=retain_ops,
                chunk_bytes=chunk_bytes,
                timeouts=Timeouts.fast(),
            )
            for replica in range(replica_count)
        ]
        self.new_machine = machine
        self.seed = seed
        self.lives = 0
        self.now_us = 1_000_000
        self.disks = [Disk() for _ in range(replica_count)]
        self.machines: list[StateMachine] = [machine() for _ in range(replica_count)]
        self.replicas: dict[int, Replica] = {}
        self.network: deque[tuple[int, int, Header, bytes]] = deque()
        self.drop: Callable[[int, int, Header], bool] = lambda source, target, header: False
        self.stuck_disks: set[int] = set()
        self.committed: dict[int, bytes] = {}
        self.outputs: list[tuple[int, out.Effect]] = []
        for replica, config in enumerate(self.configs):
            if formatted:
                self.disks[replica].superblock = genesis(config)
            self.start(replica)

    # -- lives ----------------------------------------------------------------------------------

    def start(self, replica: int, *, wiped: bool = False, node_view: int = 0) -> Replica:
        self.lives += 1
        disk = self.disks[replica]
        found = disk.superblock
        checkpoint_op = found.checkpoint_op if isinstance(found, Superblock) else 0
        restored = Restored(
            superblock=found,
            journal=disk.scan(),
            checkpoint=disk.checkpoints.get(checkpoint_op),
            incarnation=client_id(self.lives),
            wiped=wiped,
            node_view=node_view,
        )
        machine = self.machines[replica] = self.new_machine()
        random = Random(f"{self.seed}/{replica}/{self.lives}")
        started = Replica(self.configs[replica], machine, random, restored)
        self.replicas[replica] = started
        self.execute(replica)
        return started

    def crash(self, *replicas: int) -> None:
        for replica in replicas:
            del self.replicas[replica]
            self.disks[replica].lose_unsynced()

    def wipe(self, replica: int) -> None:
        self.disks[replica] = Disk()

    def isolate(self, *replicas: int) -> None:
        """These replicas and all others cannot reach each other."""
        apart = set(replicas)
        self.drop = lambda source, target, header: (source in apart) != (target in apart)

    def heal(self) -> None:
        self.drop = lambda source, target, header: False

    # -- the world ------------------------------------------------------------------------------

    def execute(self, replica: int) -> None:
        """Carry out the effects of a replica."""
        disk = self.disks[replica]
        for effect in self.replicas[replica].take_effects():
            match effect:
                case out.Send(to, header, body):
                    if not self.drop(replica, to, header):
                        self.network.append((replica, to, header, body))
                case out.WriteJournal(header, body, token):
                    disk.pending.append(Pending(token, header, body))
                case out.WriteSuperblock(superblock, token):
                    disk.pending_superblock = (superblock, token)
                case out.WriteCheckpoint(op, checkpoint, token):
                    disk.checkpoints[op] = checkpoint
                    self.replicas[replica].on_checkpoint_written(token)
                    self.execute(replica)
                case out.DropCheckpoints(below):
                    for op in [op for op in disk.checkpoints if op < below]:
                        del disk.checkpoints[op]
                case out.TruncateJournal(below):
                    disk.records = [record for record in disk.records if record[0].op >= below]
                case out.RewriteJournal():
                    disk.gaps.clear()
                    self.outputs.append((replica, effect))
                case out.ReadJournal() | out.ReadCheckpoint():
                    self._read(replica, effect)
                case out.Applied(op, header):
                    known = self.committed.setdefault(op, header.checksum)
                    if known != header.checksum:
                        raise AssertionError(f"op {op} was applied with two contents")
                    self.outputs.append((replica, effect))
                case _:
                    self.outputs.append((replica, effect))

    def _read(self, replica: int, effect: out.ReadJournal | out.ReadCheckpoint) -> None:
        disk, asking = self.disks[replica], self.replicas[replica]
        if isinstance(effect, out.ReadJournal):
            found = [b for h, b, good in disk.records if h.checksum == effect.checksum and good]
            asking.on_read(effect.token, found[0] if found else None)
        else:
            checkpoint = disk.checkpoints.get(effect.op)
            content = None
            if checkpoint is not None:
                end = effect.offset + effect.length
                content = checkpoint.artifacts[effect.artifact].content[effect.offset : end]
            asking.on_checkpoint_read(effect.token, content)
        self.execute(replica)

    def sync(self, replica: int) -> bool:
        """Everything handed to this disk is now durable; true when there was something."""
        disk = self.disks[replica]
        if replica not in self.replicas or not (disk.pending or disk.pending_superblock):
            return False
        live = self.replicas[replica]
        pending, disk.pending = disk.pending, []
        if disk.pending_superblock is not None:
            disk.superblock, token = disk.pending_superblock
            disk.pending_superblock = None
            live.on_superblock_written(token)
        if pending:
            disk.records += [(record.header, record.body, True) for record in pending]
            live.on_written(pending[-1].token)
        self.execute(replica)
        return True

    def deliver(self) -> bool:
        """The oldest frame reaches its target."""
        if not self.network:
            return False
        source, target, header, body = self.network.popleft()
        if target in self.replicas and not self.drop(source, target, header):
            self.replicas[target].on_frame(header, body)
            self.execute(target)
        return True

    def settle(self) -> None:
        """Deliver and sync until nothing moves without time."""
        for _ in range(SETTLE_STEPS_MAX):
            moved = self.deliver()
            if not moved:
                for replica in sorted(set(self.replicas) - self.stuck_disks):
                    moved |= self.sync(replica)
            if not moved:
                return
        raise AssertionError("the cluster does not come to rest")

    def tick(self, count: int, *, only: Sequence[int] | None = None) -> None:
        """Let time pass one tick at a time, settling in between."""
        for _ in range(count):
            self.now_us += 10_000
            for replica in list(only if only is not None else sorted(self.replicas)):
                if replica in self.replicas:
                    live = self.replicas[replica]
                    live.monotonic_us = live.wall_us = self.now_us
                    live.tick()
                    self.execute(replica)
            self.settle()

    # -- questions ------------------------------------------------------------------------------

    def primary(self) -> Replica:
        leaders = [replica for replica in self.replicas.values() if replica.is_primary]
        newest = max(leaders, key=lambda replica: replica.view, default=None)
        if newest is None:
            raise AssertionError("no primary")
        return newest

    def elect(self, ticks_max: int = 2_000) -> Replica:
        """Let time pass until there is a primary that takes requests."""
        self.settle()
        for _ in range(ticks_max):
            for replica in self.replicas.values():
                if replica.is_primary and replica.commit_min >= replica.inherited_op + 1:
                    return replica
            self.tick(1)
        raise AssertionError("no primary was elected")

    def enter_view(self, view: int) -> None:
        """Data groups: the control groups of all nodes have entered a view."""
        for replica in sorted(self.replicas):
            self.replicas[replica].on_enter_view(view, 0)
            self.execute(replica)
        self.settle()

    def request(
        self,
        payload: bytes,
        *,
        client: bytes = ZERO,
        number: int = 0,
        operation: int = Operation.CREATE_STREAM.value,
        at: int | None = None,
        settle: bool = True,
    ) -> None:
        target = self.primary().replica_id if at is None else at
        live = self.replicas[target]
        live.monotonic_us = live.wall_us = self.now_us
        live.on_request(client, number, operation, payload)
        self.execute(target)
        if settle:
            self.settle()

    def watch(self, kind: type[H], *, drop: bool = False) -> list[H]:
        """The headers of a kind that are sent from now on; `drop` loses every frame."""
        seen: list[H] = []

        def note(source: int, target: int, header: Header) -> bool:
            if isinstance(header, kind):
                seen.append(header)
            return drop

        self.drop = note
        return seen

    def replies(self) -> list[out.Respond]:
        return [effect for _, effect in self.outputs if isinstance(effect, out.Respond)]

    def applied(self, replica: int) -> list[bytes]:
        """Payloads a RegisterMachine has applied."""
        machine = self.machines[replica]
        if not isinstance(machine, RegisterMachine):
            raise TypeError("this cluster drives another machine")
        return machine.applied

    def effects_of(self, kind: type[out.Effect]) -> list[out.Effect]:
        return [effect for _, effect in self.outputs if isinstance(effect, kind)]


def backups(cluster: ScriptedCluster) -> list[int]:
    primary = cluster.primary().replica_id
    return [replica for replica in sorted(cluster.replicas) if replica != primary]


def elected(replica_count: int = 3, **settings: Any) -> tuple[ScriptedCluster, Replica]:
    """A cluster and its first primary that takes requests."""
    cluster = ScriptedCluster(replica_count, **settings)
    return cluster, cluster.elect()


def isolated_primary(**bugs: bool) -> tuple[ScriptedCluster, Replica]:
    """A primary that has prepared a request and reaches no backup."""
    plant_bugs(**bugs)
    cluster, primary = elected()
    cluster.isolate(primary.replica_id)
    cluster.request(b"x")
    return cluster, primary


def lone_holder(**bugs: bool) -> tuple[ScriptedCluster, int, int, int]:
    """Op 2 is committed on the primary and one backup; the other backup lacks it."""
    plant_bugs(**bugs)
    cluster = ScriptedCluster()
    primary = cluster.elect().replica_id
    holder, lacking = backups(cluster)
    cluster.isolate(lacking)
    cluster.request(b"committed")
    assert len(cluster.replies()) == 1
    return cluster, primary, holder, lacking
