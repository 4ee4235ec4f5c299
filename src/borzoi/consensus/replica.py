"""The door: every input of a replica, each run to completion, its effects in ``effects``.

Inputs never call back into the driver and never wait. After each one the cheap invariants of I1
are checked; an InvariantError that escapes means fail-stop.
"""

from collections.abc import Callable
from typing import Any, Final

from borzoi.consensus import (
    applying,
    checkpointing,
    following,
    heartbeat,
    messages,
    new_view,
    normal,
    recovery,
    repair,
    state_transfer,
    view_change,
)
from borzoi.consensus.config import Config, Randomness
from borzoi.consensus.effects import Effect, GroupCommits, Leadership
from borzoi.consensus.frames import checksum
from borzoi.consensus.invariants import invariant, present
from borzoi.consensus.machine import StateMachine
from borzoi.consensus.pipeline import LOCAL, Queued
from borzoi.consensus.recovery import Restored
from borzoi.consensus.state import (
    DURABLE,
    NORMAL,
    RECOVERING,
    VIEW_CHANGE,
    WRITING,
    ReplicaState,
)
from borzoi.consensus.timeouts import Timer

_new: Final = tuple.__new__


class Replica(ReplicaState):
    """One replica of one group. Constructing it is a (re)start; drain ``effects`` right after."""

    __slots__ = ()

    def __init__(
        self, config: Config, machine: StateMachine, random: Randomness, restored: Restored
    ) -> None:
        super().__init__(config, machine, random)
        recovery.restart(self, restored)
        self.check()

    def take_effects(self) -> list[Effect]:
        """What the last inputs want done, in order; the list is handed over."""
        effects = self.effects
        self.effects = []
        return effects

    # -- time -------------------------------------------------------------------------------------

    def ticks_until_deadline(self) -> int:
        """How many ticks may be skipped until one could do something; at least 1."""
        return max(1, self.timers.next_deadline - self.timers.now)

    def tick(self, count: int = 1) -> None:
        timers = self.timers
        if timers.elapse(count) and not self.stopped:
            for timer in timers.fired():
                _TIMER_HANDLERS[timer](self)
            self.check()

    # -- frames and requests ----------------------------------------------------------------------

    def on_frame(self, header: messages.Header, body: bytes) -> None:
        if self.stopped:
            return
        handler = _FRAME_HANDLERS.get(type(header))
        if handler is not None and (not self.is_empty or type(header) is messages.Handshake):
            handler(self, header, body)
            self.check()

    def on_request(
        self,
        client: messages.U128,
        request: int,
        operation: int,
        payload: bytes,
        user_id: int = 0,
        epoch: int = 0,
    ) -> None:
        """A client of this node asks; answered by a Reply, now or later, or by FailWaiters."""
        if self.elects and heartbeat.clock_has_moved(self):
            heartbeat.leave_when_clock_is_off(self)
        identity = checksum(payload)
        queued = Queued(client, request, operation, payload, identity, user_id, epoch, LOCAL)
        normal.on_request(self, queued)
        self.check()

    # -- completions ------------------------------------------------------------------------------

    def on_written(self, token: int) -> None:
        """Every journal write up to ``token`` is on the disk."""
        writes = self.journal_writes
        while writes and writes[0][0] <= token:
            entry = writes.popleft()[1]
            if entry.held == WRITING:
                entry.held = DURABLE
        if self.is_damaged:
            recovery.rewrite_when_whole(self)
        if self.status is NORMAL and self.leads_view():
            normal.own_acks(self)
            if self.pipeline.queue:
                normal.drain_queue(self)
        elif self.advance_durable_prefix():
            following.acknowledge(self)
            self._progress()
        self.check()

    def on_superblock_written(self, token: int) -> None:
        """S2: what becomes durable is what was written, not what memory holds now."""
        write = present(self.superblock_write, "a superblock was being written")
        invariant(write.token == token, "one superblock write at a time")
        self.superblock_write = None
        previous_checkpoint_op = self.durable_checkpoint_op
        self.durable_view = write.view
        self.durable_log_view = write.log_view
        self.durable_checkpoint_op = write.checkpoint_op
        self.durable_wiped = write.wiped
        self.durable_suffix = write.suffix
        if write.checkpoint_op > previous_checkpoint_op:
            if self.durable_prefix < write.checkpoint_op:
                # The checkpoint replaces the records that it covers, which may be recycled now.
                self.recompute_durable_prefix()
            checkpointing.forget_covered(self, previous_checkpoint_op)
        self.flush_superblock()
        view_change.announce_view(self)
        view_change.send_do_view_change(self)
        following.acknowledge(self)
        self._progress()
        self.check()

    def on_read(self, token: int, body: bytes | None) -> None:
        if repair.on_read(self, token, body):
            applying.apply_committed(self)
            self._progress()
        self.check()

    def on_checkpoint_written(self, token: int) -> None:
        write = present(self.checkpoint_write, "a checkpoint was being written")
        invariant(write.token == token, "one checkpoint write at a time")
        self.checkpoint_write = None
        if write.is_transfer:
            state_transfer.install(self, write.checkpoint)
        else:
            checkpointing.adopt_own(self, write.checkpoint)
        self._progress()
        self.check()

    def on_checkpoint_read(self, token: int, content: bytes | None) -> None:
        state_transfer.on_checkpoint_read(self, token, content)

    def on_machine_ready(self) -> None:
        """Something the state machine waited for may be there now (X1)."""
        applying.apply_committed(self)
        self._progress()
        self.check()

    def _progress(self) -> None:
        """Whatever became possible because something became durable or was applied (M4)."""
        if self.status is VIEW_CHANGE:
            new_view.try_start_view(self)
        elif self.wiped:
            recovery.finish_rejoin(self)
        elif self.is_primary:
            normal.drain_queue(self)
            heartbeat.grant_reads(self)

    # -- between the groups of a node (D2) --------------------------------------------------------

    def on_enter_view(self, view: int, promise_ticks: int = 0) -> None:
        """Data groups: the control replica of this node has entered ``view`` (D2)."""
        self.node_view = max(self.node_view, view)
        if view > self.view and self.status is not RECOVERING:
            view_change.enter_view(self, view)
            self.promise_until = self.timers.now + promise_ticks
        self.check()

    def on_group_commit(self, view: int, commit: int, checkpoint_op: int) -> None:
        """Data groups: the primary's position, carried by the control group's heartbeat."""
        if view == self.view and self.follows_log() and not self.leads_view():
            self.peer_checkpoint_op = max(self.peer_checkpoint_op, checkpoint_op)
            following.learn_commit(self, commit)
            self._progress()
        self.check()

    def on_position(
        self, group: int, view: int, commit: int, checkpoint_op: int, identity: messages.U128
    ) -> None:
        """Control group: where a data group of this node stands."""
        self.positions[group] = (view, commit, checkpoint_op, identity)

    def on_peer_checkpoint(self, op: int, identity: messages.U128) -> None:
        """Data groups: a peer's checkpoint, to compare with ours (K1)."""
        heartbeat.compare_checkpoint(self, op, identity)

    def on_cluster_release(self, release: int) -> None:
        """Data groups: what every replica's pings advertise to this node's control group."""
        self.cluster_release = release

    def on_abdicate(self) -> None:
        """Control group: a data group of this node cannot work in this view."""
        if self.is_primary:
            view_change.step_down(self)
        else:
            view_change.vote(self)
        self.check()

    def step_down(self) -> None:
        """Leave the view as its primary, for a rolling restart."""
        view_change.step_down(self)
        self.check()

    # -- reads (L1) -------------------------------------------------------------------------------

    @property
    def clock_error_us(self) -> int:
        """Control group: how far this node's clock is from the others'; 0 when it is not."""
        return heartbeat.clock_error_us(self)

    def may_read(self, monotonic_us: int) -> bool:
        """Whether this node may answer reads as the leader at this moment of its clock."""
        return heartbeat.may_read(self, monotonic_us)

    def on_linearizable_read(self, token: int) -> bool:
        """False: not the primary. True: ReadReady(token) follows, or FailWaiters."""
        return heartbeat.on_linearizable_read(self, token)

    def serves_reads(self, control_view: int) -> bool:
        """Data groups: whether a read that this node's control group granted may run here.

        A data group never works in a view its control group has not reached (D2), so contact with
        a quorum in the control view proves that no other node leads this group.
        """
        return self.view == control_view and heartbeat.is_current(self)

    @property
    def checkpoint_checksum(self) -> messages.U128:
        return self.checkpoint_checksums.get(self.checkpoint_op, messages.ZERO)

    @property
    def is_leader(self) -> bool:
        return self.leadership is Leadership.LEADER


def _on_prepare(r: Replica, header: messages.Prepare, body: bytes) -> None:
    following.on_prepare(r, header, body)
    if r.wiped:
        r._progress()


def _on_commit(r: Replica, header: messages.Commit, body: bytes) -> None:
    if header.view < r.view and r.is_primary:
        # V7: a primary of an older view still believes in itself.
        view_change.send_start_view(r, header.replica, bytes(16))
    elif following.on_commit(r, header, body) and body:
        positions = checkpointing.decode_positions(body)
        r.effects.append(_new(GroupCommits, (header.view, positions)))
    if r.wiped:
        r._progress()


def _on_headers(r: Replica, header: messages.Headers, body: bytes) -> None:
    if repair.on_headers(r, header, body):
        repair.begin(r)
        following.acknowledge(r)
        applying.apply_committed(r)
        r._progress()


def _on_repair_timer(r: Replica) -> None:
    stuck = repair.on_timer(r)
    if r.is_damaged:
        recovery.rewrite_when_whole(r)
    applying.apply_committed(r)
    state_transfer.consider(r, repair_is_stuck=stuck)
    if stuck and r.is_primary and r.commit_min < r.commit_max and r.others:
        # Its peers no longer have what it can no longer read; as a backup it will
        # be given a checkpoint.
        view_change.make_way(r)
    r._progress()


def _on_commit_timer(r: Replica) -> None:
    if heartbeat.leave_when_clock_is_off(r):
        return
    if r.is_primary:
        normal.broadcast_commit(r)
        r.timers.start(Timer.COMMIT_MESSAGE)


def _on_ping_timer(r: Replica) -> None:
    heartbeat.on_ping_timer(r)
    if r.is_empty:
        recovery.greet(r)
    elif r.follows_log():
        state_transfer.consider(r, repair_is_stuck=False)


_FRAME_HANDLERS: Final[dict[type, Callable[[Replica, Any, bytes], None]]] = {
    messages.Ping: heartbeat.on_ping,
    messages.Pong: heartbeat.on_pong,
    messages.Request: normal.on_request_frame,
    messages.Prepare: _on_prepare,
    messages.PrepareOk: normal.on_prepare_ok,
    messages.Reply: normal.on_reply_frame,
    messages.Commit: _on_commit,
    messages.StartViewChange: view_change.on_start_view_change,
    messages.DoViewChange: view_change.on_do_view_change,
    messages.StartView: new_view.on_start_view,
    messages.RequestStartView: new_view.on_request_start_view,
    messages.RequestHeaders: repair.on_request_headers,
    messages.Headers: _on_headers,
    messages.RequestPrepare: repair.on_request_prepare,
    messages.RequestStateTransfer: state_transfer.on_request_transfer,
    messages.StateTransferTarget: state_transfer.on_target,
    messages.RequestStateChunk: state_transfer.on_request_chunk,
    messages.StateChunk: state_transfer.on_chunk,
    messages.Handshake: recovery.on_handshake,
}

_TIMER_HANDLERS: Final[dict[int, Callable[[Replica], None]]] = {
    Timer.PING: _on_ping_timer,
    Timer.PREPARE: normal.on_prepare_timer,
    Timer.COMMIT_MESSAGE: _on_commit_timer,
    Timer.NORMAL_HEARTBEAT: view_change.vote,
    Timer.START_VIEW_CHANGE: view_change.on_vote_timer,
    Timer.VIEW_CHANGE_STATUS: view_change.on_view_change_timer,
    Timer.DO_VIEW_CHANGE: view_change.on_do_view_change_timer,
    Timer.REQUEST_START_VIEW: new_view.on_request_start_view_timer,
    Timer.REPAIR: _on_repair_timer,
    Timer.PRIMARY_ABDICATE: view_change.on_abdicate_timer,
    Timer.STATE_TRANSFER_STALL: state_transfer.on_stall_timer,
    Timer.CHECKPOINT: checkpointing.on_timer,
}
