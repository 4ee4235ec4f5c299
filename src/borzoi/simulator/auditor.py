"""Watches every apply, send, reply and read of a run, and objects at once.

The auditor knows what no replica knows: the disks of all nodes, everything ever committed, every
reply any client ever got. It never changes what happens.
"""

from collections import Counter
from typing import Final

from borzoi.consensus import messages
from borzoi.consensus.checkpoint import Checkpoint, manifest_checksum
from borzoi.consensus.effects import Applied
from borzoi.consensus.messages import ZERO, Header, Operation
from borzoi.consensus.quorum import Quorums
from borzoi.consensus.replica import Replica
from borzoi.consensus.superblock import Superblock
from borzoi.simulator.operations import INVALID_COMMAND, OK
from borzoi.simulator.shadow import ControlShadow, DataShadow
from borzoi.simulator.volume import Volume

# Under names of their own: looking up a member of an enum costs as much as a call.
REGISTER: Final = Operation.REGISTER
UNREGISTER: Final = Operation.UNREGISTER
CORE_OPERATIONS: Final = frozenset({Operation.NOOP, Operation.REGISTER, Operation.UNREGISTER})
# Sent in the sender's own view and only from a durable one. A StartViewChange names the view after
# it; a Prepare keeps the view it was made in; a RequestStartView may name any known view.
VIEW_BOUND: Final = frozenset(
    {
        messages.PrepareOk,
        messages.Commit,
        messages.DoViewChange,
        messages.StartView,
    }
)


class Violation(Exception):
    """A checker's objection; ends the run."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


class GroupHistory:
    """Everything ever committed in one group, in order."""

    def __init__(self, group: int, segment_bytes: int) -> None:
        self.group = group
        self.checksums: list[bytes] = []
        self.answers: list[tuple[int, bytes]] = []
        self.view = 0
        self.timestamp = 0
        # (client, request) -> op, and client -> op of its latest Register.
        self.requests: dict[tuple[bytes, int], int] = {}
        self.epochs: dict[bytes, int] = {}
        # As `epochs`, but sessions that were ended stay in: their zombies are zombies too.
        self.registered: dict[bytes, int] = {}
        self.replied_op = 0
        # Bit r: replica r once had this record synced, whatever became of its disk later.
        self.copies: dict[bytes, int] = {}
        self.checkpoints: dict[int, bytes] = {}
        self.shadow = ControlShadow() if group == 0 else DataShadow(segment_bytes)


class Auditor:
    def __init__(
        self, replicas: int, groups: int, quorums: Quorums, segment_bytes: int = 1 << 20
    ) -> None:
        self.replicas = replicas
        self.quorums = quorums
        self.groups = [GroupHistory(group, segment_bytes) for group in range(groups)]
        self.counters: Counter[str] = Counter()
        # How often each operation was committed, by whether it did what was asked.
        self.committed: Counter[tuple[int, bool]] = Counter()
        # Epoch under which a client issued a request: an op made under an older one is a zombie's.
        self.issued: dict[tuple[int, bytes, int], int] = {}
        self.replies: dict[tuple[int, bytes, int], tuple[int, bytes]] = {}
        self.leaders: dict[tuple[int, int], int] = {}
        self.view = 0
        self._sent_views = [[0] * groups for _ in range(replicas)]
        self._forgetful: set[int] = set()
        self._claims: dict[tuple[int, int, int, int], Header] = {}
        self._acked: dict[tuple[int, int], tuple[int, int, int]] = {}

    # -- journals ----------------------------------------------------------------------------------

    def synced(self, replica: int, group: int, digest: bytes) -> None:
        copies = self.groups[group].copies
        copies[digest] = copies.get(digest, 0) | 1 << replica

    # -- applying ----------------------------------------------------------------------------------

    def applied(self, replica: int, group: int, effect: Applied) -> None:
        history = self.groups[group]
        op, header = effect.op, effect.header
        if header.op != op:
            raise Violation("commit agreement", f"op {op} applied with the header of {header.op}")
        if op <= len(history.checksums):
            if history.checksums[op - 1] != header.checksum:
                raise Violation(
                    "commit agreement",
                    f"group {group} op {op}: replica {replica} applies {header.checksum[:4].hex()}"
                    f" of view {header.view}, committed was {history.checksums[op - 1][:4].hex()}",
                )
            if history.answers[op - 1] != (effect.status, effect.payload):
                raise Violation(
                    "state agreement",
                    f"group {group} op {op}: replica {replica} answers {effect.status}"
                    f" {effect.payload!r}, first answer was {history.answers[op - 1]!r}",
                )
            return
        if op != len(history.checksums) + 1:
            raise Violation("commit agreement", f"group {group} op {op} applied after a hole")
        self._commit(replica, history, effect)

    def _commit(self, replica: int, history: GroupHistory, effect: Applied) -> None:
        header, group = effect.header, history.group
        if history.checksums and header.parent != history.checksums[-1]:
            raise Violation("commit agreement", f"group {group} op {effect.op} breaks the chain")
        if header.view < history.view:
            raise Violation("commit agreement", f"group {group} op {effect.op}: view goes down")
        if header.timestamp <= history.timestamp:
            raise Violation("commit agreement", f"group {group} op {effect.op}: time goes back")
        copies = history.copies.get(header.checksum, 0)
        if copies.bit_count() < self.quorums.replication:
            raise Violation(
                "durability",
                f"group {group} op {effect.op} applied by replica {replica} with copies {copies:b}",
            )
        history.view = header.view
        history.timestamp = header.timestamp
        history.checksums.append(header.checksum)
        history.answers.append((effect.status, effect.payload))
        self.counters["commits"] += 1
        self._once(history, effect)
        if header.operation not in CORE_OPERATIONS:
            self.committed[header.operation, effect.status == OK] += 1
            predicted = history.shadow.predict(header, effect.body)
            if predicted != (effect.status, effect.payload):
                raise Violation(
                    "state agreement",
                    f"group {group} op {effect.op} operation {header.operation}:"
                    f" {effect.status} {effect.payload!r}, predicted {predicted!r}",
                )
            if isinstance(history.shadow, DataShadow) and history.shadow.objections:
                raise Violation(
                    "log contents", f"group {group} op {effect.op}: {history.shadow.objections[0]}"
                )

    def _once(self, history: GroupHistory, effect: Applied) -> None:
        header = effect.header
        if header.client == ZERO:
            return
        key = (header.client, header.request)
        if header.operation == REGISTER:
            history.epochs[header.client] = history.registered[header.client] = effect.op
            return
        if header.operation == UNREGISTER:
            history.epochs.pop(header.client, None)
        if key in history.requests:
            raise Violation(
                "at most once",
                f"group {history.group} request {header.request} is op {history.requests[key]}"
                f" and op {effect.op}",
            )
        history.requests[key] = effect.op
        issued = self.issued.get((history.group, *key))
        if issued is not None and issued < history.registered.get(header.client, 0):
            raise Violation(
                "at most once",
                f"group {history.group} op {effect.op}: a request of epoch {issued} after the"
                f" client registered at op {history.registered[header.client]}",
            )

    def checkpoint(self, replica: int, group: int, op: int, checkpoint: Checkpoint) -> None:
        digest = manifest_checksum(checkpoint.manifest)
        first = self.groups[group].checkpoints.setdefault(op, digest)
        if first != digest:
            raise Violation(
                "state agreement", f"group {group} checkpoint {op} of replica {replica} differs"
            )

    def wiped(self, replica: int) -> None:
        """From now on it may not know that it had left a view."""
        self._forgetful.add(replica)

    # -- sending -----------------------------------------------------------------------------------

    def sent(self, number: int, replica: Replica, volume: Volume, header: Header) -> None:
        """Called for every frame of a kind in VIEW_BOUND that a replica sends to another."""
        group, view = replica.group, header.view
        sent_views = self._sent_views[number]
        # G2: its rejoin was in the view before, at worst, and the primary there does not count it.
        forgot = number in self._forgetful and isinstance(header, messages.PrepareOk)
        if view < sent_views[group] - forgot:
            raise Violation(
                "view discipline",
                f"replica {number} group {group} sends {type(header).__name__} in view {view}"
                f" after view {sent_views[group]}",
            )
        if view > sent_views[group]:
            sent_views[group] = view
        durable = volume.newest()
        if durable is None or durable.view < view:
            raise Violation(
                "durability",
                f"replica {number} group {group} sends {type(header).__name__} in view {view},"
                f" durable is {durable.view if durable else None}",
            )
        if isinstance(header, messages.PrepareOk):
            self._acknowledged(number, replica, volume, durable, header)
        elif isinstance(header, messages.DoViewChange):
            # V9: the candidate may have heard any of them, so they must be the same bytes.
            claim = (number, group, view, volume.life)
            if self._claims.setdefault(claim, header) != header:
                raise Violation(
                    "view discipline",
                    f"replica {number} group {group} claims two different things in view {view}",
                )
        elif isinstance(header, messages.StartView) and durable.log_view < view:
            raise Violation(
                "durability", f"replica {number} group {group} starts view {view} undurably"
            )

    def _acknowledged(
        self,
        number: int,
        replica: Replica,
        volume: Volume,
        durable: Superblock,
        header: messages.PrepareOk,
    ) -> None:
        """Every canonical op up to the acknowledged one is on this disk, now."""
        if durable.log_view < header.view:
            raise Violation(
                "durability",
                f"replica {number} group {replica.group} acknowledges op {header.op} in view"
                f" {header.view} before its log_view is durable",
            )
        self.counters["acknowledgements"] += 1
        where = (number, replica.group)
        view, upto, life = self._acked.get(where, (-1, 0, -1))
        if view != header.view or life != volume.life or upto < replica.checkpoint_op:
            upto = replica.checkpoint_op
        known, found = replica.canon, volume.found
        for op in range(upto + 1, header.op + 1):
            canonical = known.get(op)
            if canonical is None or not (
                canonical.checksum in found or volume.is_synced(canonical.checksum)
            ):
                raise Violation(
                    "durability",
                    f"replica {number} group {replica.group} acknowledges op {header.op} in view"
                    f" {header.view}, op {op} is not synced",
                )
        self._acked[where] = (header.view, header.op, volume.life)

    def started_view(self, number: int, group: int, view: int) -> None:
        """A replica tells its clients that it leads; at most one per view may."""
        if self.leaders.setdefault((group, view), number) != number:
            raise Violation("view discipline", f"view {view} of group {group} has two leaders")
        if group == 0 and view > self.view:
            self.view = view
            self.counters["view_changes"] += 1

    # -- answering ---------------------------------------------------------------------------------

    def replied(
        self, group: int, client: bytes, request: int, status: int, payload: bytes
    ) -> int | None:
        """A client got an answer with an outcome; returns its op."""
        history = self.groups[group]
        key = (group, client, request)
        first = self.replies.setdefault(key, (status, payload))
        if first != (status, payload):
            raise Violation(
                "at most once", f"group {group} request {request} answered twice: {first!r}"
            )
        op = history.requests.get((client, request))
        if op is None and status == INVALID_COMMAND and not payload:
            # Refused before it became an op; the same request would be refused everywhere.
            self.counters["refused as invalid"] += 1
            return None
        if op is None:
            raise Violation(
                "no lost ack", f"group {group} request {request} answered but never committed"
            )
        if history.answers[op - 1] != (status, payload):
            raise Violation(
                "no lost ack",
                f"group {group} request {request} answered {payload!r}, op {op} gave"
                f" {history.answers[op - 1]!r}",
            )
        self.counters["replies"] += 1
        if op > history.replied_op:
            history.replied_op = op
        return op

    def forgotten(self, group: int, client: bytes, sessions_max: int, applied: int) -> None:
        """A replica calls a session unknown: right where sessions are evicted, or before it came.

        A primary that does not know yet that it was deposed may not have applied the Register.
        """
        epochs, ever = self.groups[group].epochs, len(self.groups[group].registered)
        if epochs.get(client, applied + 1) <= applied and ever <= sessions_max:
            raise Violation(
                "at most once",
                f"group {group} forgot the session of op {epochs[client]}, {ever} of"
                f" {sessions_max} ever registered",
            )

    def read(self, group: int, level: str, applied_op: int, floor: int, number: int) -> None:
        """A read at `level` saw the state after `applied_op`; `floor` was answered before it."""
        self.counters["reads"] += 1
        self.counters[f"reads: {level}"] += 1
        if applied_op > len(self.groups[group].checksums):
            raise Violation("reads", f"replica {number} shows op {applied_op}, not committed")
        if level != "prefix" and applied_op < floor:
            raise Violation(
                "reads",
                f"{level} read of group {group} at replica {number} sees op {applied_op},"
                f" but op {floor} was acknowledged before",
            )

    def polled(
        self, group: int, key: tuple[int, int], generation: int, start: int, payloads: list[bytes]
    ) -> None:
        """A read gave these messages from offset `start` of the generation on."""
        shadow = self.groups[group].shadow
        if not isinstance(shadow, DataShadow):
            return
        self.counters["messages polled"] += len(payloads)
        for offset, payload in enumerate(payloads, start):
            if shadow.minted.get((*key, generation, offset)) != payload:
                raise Violation(
                    "reads", f"group {group} {key}: {payload[:40]!r} was polled at {offset}"
                )
