"""Coming back: from a disk, from an empty disk at genesis, from a lost disk (G1-G4, S5, S6, V6)."""

from typing import Final

import msgspec

from borzoi.consensus import applying, checkpointing, following, repair, view_change
from borzoi.consensus.checkpoint import Checkpoint, manifest_checksum
from borzoi.consensus.effects import Abdicate, Fatal, Leadership, RewriteJournal
from borzoi.consensus.frames import EMPTY_BODY
from borzoi.consensus.journal import JournalScan, RecoveredLog, recover
from borzoi.consensus.messages import HEADER_BYTES, U128, UNSEALED, ZERO, Command, Handshake
from borzoi.consensus.quorum import members
from borzoi.consensus.state import (
    DURABLE,
    FAULTY,
    NORMAL,
    RECOVERING,
    VIEW_CHANGE,
    JournalEntry,
    ReplicaState,
)
from borzoi.consensus.superblock import Empty, Superblock, Unreadable, genesis, mismatch
from borzoi.consensus.timeouts import Timer
from borzoi.model.value import Value

HELLO: Final = 0
ANSWER: Final = 1
FLAG_EMPTY: Final = 1
FLAG_COUNTED: Final = 2


class Restored(Value):
    """Everything durable a replica starts from, as its driver found it."""

    superblock: Superblock | Empty | Unreadable
    journal: JournalScan = msgspec.field(default_factory=JournalScan)
    checkpoint: Checkpoint | None = None
    incarnation: U128 = ZERO
    wiped: bool = False
    # Data groups: the view in the superblock of this node's control group.
    node_view: int = 0


def restart(r: ReplicaState, restored: Restored) -> None:
    """Take up the role the disk allows; refuse loudly what it does not (G3, G4)."""
    r.incarnation = restored.incarnation
    r.node_view = restored.node_view
    r.timers.start(Timer.PING)
    found = restored.superblock
    if isinstance(found, Unreadable):
        return refuse(r, f"{found.reason}: wipe this directory and rejoin")
    if isinstance(found, Empty):
        return _start_empty(r, restored)
    reason = mismatch(found, r.config)
    if reason is not None:
        return refuse(r, reason)
    if not _restore_checkpoint(r, found, restored.checkpoint):
        return refuse(r, f"checkpoint {found.checkpoint_op} is damaged: wipe and rejoin")
    log = recover(found, restored.journal, r.config.pipeline_max)
    _restore_log(r, found, log)
    r.is_damaged = bool(restored.journal.gaps) or any(
        header.checksum in log.faulty for header in restored.journal.redundant
    )
    # A restart forgets when the primary was last answered; assume a moment ago (L1).
    following.promise(r)
    view_change.announce_view(r)
    if found.wiped or log.broken:
        return _rejoin(r)
    return _resume(r)


def refuse(r: ReplicaState, reason: str) -> None:
    r.stopped = True
    r.effects.append(Fatal(reason))


def _restore_checkpoint(r: ReplicaState, found: Superblock, checkpoint: Checkpoint | None) -> bool:
    if found.checkpoint_op == 0:
        r.machine.restore(0, ())
        checkpointing.begin_interval(r, r.manifest.header)
        return True
    if checkpoint is None:
        return False
    manifest = checkpoint.manifest
    if (
        manifest.header.op != found.checkpoint_op
        or manifest_checksum(manifest) != found.checkpoint_checksum
    ):
        return False
    r.manifest = manifest
    r.checkpoint_op = r.commit_min = r.commit_max = r.op = found.checkpoint_op
    checkpointing.remember_checksum(r)
    checkpointing.restore(r, checkpoint)
    return True


def _restore_log(r: ReplicaState, found: Superblock, log: RecoveredLog) -> None:
    r.view = r.durable_view = found.view
    r.log_view = r.durable_log_view = found.log_view
    r.generation = found.generation
    r.wiped = r.durable_wiped = found.wiped
    r.durable_checkpoint_op = r.installed_op = found.checkpoint_op
    r.durable_suffix = found.suffix
    r.op, r.commit_max = log.op, log.commit_max
    r.canon = log.canon
    r.canon[r.checkpoint_op] = r.manifest.header
    r.lost = log.lost
    for identity, header in log.readable.items():
        r.entries[identity] = JournalEntry(header, DURABLE, None)
    for identity, header in log.faulty.items():
        r.entries[identity] = JournalEntry(header, FAULTY, None)
    timestamps = [entry.header.timestamp for entry in r.entries.values()]
    timestamps += [header.timestamp for header in r.canon.values()]
    r.last_timestamp = max(timestamps)
    r.log_floor = min(min(r.canon), r.checkpoint_op)
    r.recompute_durable_prefix()


def _resume(r: ReplicaState) -> None:
    """V6."""
    if r.node_view > r.view:
        # The node had left this view before it stopped, so nothing is acknowledged in it any more
        # (D2); its control group repeats it, with its promise, before any other message arrives.
        r.status = VIEW_CHANGE
        r.resigned = True
        r.take_role(Leadership.NONE)
    elif r.log_view < r.view:
        r.status = VIEW_CHANGE
        r.timers.start(Timer.VIEW_CHANGE_STATUS)
        r.timers.start(Timer.REQUEST_START_VIEW)
        r.timers.start(Timer.DO_VIEW_CHANGE)
        r.do_view_change = view_change.build_do_view_change(r)
        r.take_role(Leadership.NONE)
        view_change.send_do_view_change(r)
    elif not r.leads_view():
        r.status = NORMAL
        r.take_role(Leadership.FOLLOWER)
        following.hear_primary(r)
        repair.begin(r)
        following.acknowledge(r)
        applying.apply_committed(r)
    elif r.elects:
        r.status = NORMAL
        view_change.enter_view(r, r.view + 1, from_primary=True)
        r.announces = True
    else:
        # A data group may not move by itself (D2): make the control group leave the view.
        # Until then it stands still: what it prepared before may be acknowledged out there.
        r.status = VIEW_CHANGE
        r.resigned = True
        r.timers.start(Timer.VIEW_CHANGE_STATUS)
        r.effects.append(Abdicate(f"group {r.group} restarted as primary of view {r.view}"))


def _rejoin(r: ReplicaState) -> None:
    """G2: without a voice until a barrier op proves that others hold what this one forgot."""
    r.status = RECOVERING
    r.wiped = r.durable_wiped = True
    r.barrier = None
    r.timers.start(Timer.REQUEST_START_VIEW)
    r.take_role(Leadership.NONE)
    r.persist()
    following.request_start_view(r)


def finish_rejoin(r: ReplicaState) -> None:
    """The barrier is committed by others and everything up to it is durable here."""
    if not r.wiped or r.barrier is None or not r.log_is_durable():
        return
    if r.commit_min < r.barrier or r.durable_prefix < r.barrier:
        return
    r.wiped = False
    r.status = NORMAL
    r.timers.stop(Timer.REQUEST_START_VIEW)
    following.hear_primary(r)
    r.persist()
    if r.node_view > r.view:
        # The node moved on while this group had no voice; data groups are notified of a view once.
        view_change.enter_view(r, r.node_view)


def rewrite_when_whole(r: ReplicaState) -> None:
    """Once every canonical op is durable here again, the damaged stretch of journal says nothing.

    Left in place it would cost this replica its voice at every later restart.
    """
    if r.status is NORMAL and not r.durable_wiped and r.durable_prefix == r.op:
        r.is_damaged = False
        r.lost.clear()
        r.effects.append(RewriteJournal())


# -- genesis --------------------------------------------------------------------------------------


def _start_empty(r: ReplicaState, restored: Restored) -> None:
    r.machine.restore(0, ())
    checkpointing.begin_interval(r, r.manifest.header)
    # Nothing is durable yet, not even view 0.
    r.durable_log_view = -1
    if restored.wiped:
        # Its former life may have answered a primary a moment ago (L1).
        following.promise(r)
        _rejoin(r)
    else:
        r.is_empty = True
        r.empties = 1 << r.replica_id
        r.take_role(Leadership.NONE)
        greet(r)


def greet(r: ReplicaState) -> None:
    """G1: an empty replica asks everyone whether they are empty too."""
    for to in r.others:
        _handshake(r, to, HELLO, ZERO, FLAG_EMPTY)
    _format_when_all_empty(r)


def _handshake(r: ReplicaState, to: int, status: int, echo: U128, flags: int) -> None:
    # fmt: off
    r.send(to, Handshake(
        UNSEALED, EMPTY_BODY, r.cluster, HEADER_BYTES, r.durable_view, r.release,
        Command.HANDSHAKE.value, r.replica_id, status, flags, r.group, r.incarnation, echo,
        bytes(32), bytes(32),
    ))
    # fmt: on


def on_handshake(r: ReplicaState, header: Handshake, _: bytes) -> None:
    """Answer a greeting; count an empty peer; or learn that genesis has already counted us."""
    peer = header.replica
    if header.status == HELLO:
        flags = FLAG_EMPTY if r.is_empty else 0
        if r.genesis_incarnations.get(peer) == header.incarnation and not r.is_empty:
            flags |= FLAG_COUNTED
        _handshake(r, peer, ANSWER, header.incarnation, flags)
    elif header.echo != r.incarnation:
        return
    if not r.is_empty:
        return
    if header.flags & FLAG_EMPTY:
        r.empties |= 1 << peer
        r.genesis_incarnations[peer] = header.incarnation
        _format_when_all_empty(r)
    elif header.flags & FLAG_COUNTED:
        # This process was empty when all were: the same as having formatted then.
        format_disk(r)


def _format_when_all_empty(r: ReplicaState) -> None:
    """All n, not a majority: the missing one may hold the real data."""
    if r.is_empty and members(r.empties) == r.replica_count:
        format_disk(r)


def format_disk(r: ReplicaState) -> None:
    """View 0, replica 0 its primary, an empty log; the superblock goes to disk first."""
    r.is_empty = False
    r.durable_suffix = genesis(r.config).suffix
    if r.leads_view():
        r.status = VIEW_CHANGE
    else:
        r.status = NORMAL
        r.take_role(Leadership.FOLLOWER)
        following.hear_primary(r)
    r.persist()
