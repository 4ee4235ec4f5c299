"""Committed ops into client table and state machine, and their answers out (N7, C1)."""

from typing import Final

from borzoi.consensus import checkpointing, repair
from borzoi.consensus.client_table import CachedReply
from borzoi.consensus.effects import STATUS_OK, Applied
from borzoi.consensus.effects import Respond as ReplyEffect
from borzoi.consensus.frames import checksum
from borzoi.consensus.messages import (
    HEADER_BYTES,
    NOOP,
    REGISTER,
    UNREGISTER,
    UNSEALED,
    ZERO,
    Command,
    Prepare,
    Reply,
)
from borzoi.consensus.pipeline import LOCAL, InFlight, Queued
from borzoi.consensus.state import BODIES_CACHED, DURABLE, FAULTY, ReplicaState
from borzoi.consensus.timeouts import Timer

READ_AHEAD: Final = 8
_new: Final = tuple.__new__
# A record's trailer; its padding is left out of the count.
JOURNAL_OVERHEAD_BYTES: Final = 64


def apply_committed(r: ReplicaState) -> None:
    """N7: in op order, and only entries that are canonical and held."""
    if not r.follows_log():
        return
    while r.commit_min < r.commit_max:
        op = r.commit_min + 1
        header = r.canon.get(op)
        if header is None:
            break
        entry = r.entries.get(header.checksum)
        if entry is None or entry.held == FAULTY:
            break
        if entry.body is None:
            _read_ahead(r, op)
            break
        if not _apply(r, header, entry.body):
            break
    if r.commit_min < r.commit_max and r.commit_min < r.op:
        r.timers.ensure(Timer.REPAIR)


def _read_ahead(r: ReplicaState, first: int) -> None:
    for op in range(first, min(first + READ_AHEAD, r.commit_max + 1)):
        header = r.canon.get(op)
        entry = r.entries.get(header.checksum) if header is not None else None
        if entry is not None and entry.body is None and entry.held == DURABLE:
            repair.read_for_apply(r, entry)


def _apply(r: ReplicaState, header: Prepare, body: bytes) -> bool:
    """One op into client table and state machine; false when the machine must wait (X1)."""
    op, client, operation = header.op, header.client, header.operation
    status, payload = STATUS_OK, b""
    if operation == REGISTER:
        payload = r.client_table.register(client, op, header.user_id)
        r.pipeline.registering.discard(client)
    elif operation == UNREGISTER:
        r.client_table.unregister(client)
    elif operation != NOOP:
        result = r.machine.apply(header, body)
        if result is None:
            return False
        status, payload = result
        if client != ZERO:
            request = header.request
            reply = _new(CachedReply, (request, status, payload))
            r.client_table.record(client, op, request, header.request_checksum, reply)
    r.commit_min = op
    r.effects.append(_new(Applied, (op, header, body, status, payload)))
    waiter = r.reply_due.pop(op, None)
    if waiter is not None:
        answer(r, waiter, status, payload)
    _release_body(r, op - BODIES_CACHED)
    r.uncovered_bytes += header.size + JOURNAL_OVERHEAD_BYTES
    if (
        op % r.config.checkpoint_interval == 0
        or r.uncovered_bytes >= r.config.checkpoint_bytes
        or header.timestamp >= r.checkpoint_due_us
    ):
        checkpointing.take(r, header)
    return True


def _release_body(r: ReplicaState, op: int) -> None:
    header = r.canon.get(op)
    entry = r.entries.get(header.checksum) if header is not None else None
    if entry is not None and entry.held == DURABLE:
        entry.body = None


def answer(r: ReplicaState, asked: Queued | InFlight, status: int, payload: bytes) -> None:
    """To the waiter here, or to the replica that forwarded the request."""
    if asked.origin is None:
        # Inherited from an earlier view: its client got "outcome unknown" when that view ended.
        return
    if isinstance(asked, Queued):
        client, request, operation = asked.client, asked.request, asked.operation
        op, identity = 0, asked.request_checksum
    else:
        prepare = asked.header
        client, request, operation = prepare.client, prepare.request, prepare.operation
        op, identity = prepare.op, prepare.request_checksum
        r.pipeline.forget(client, request)
    if asked.origin == LOCAL:
        r.effects.append(_new(ReplyEffect, (client, request, status, payload)))
        return
    # fmt: off
    r.send(asked.origin, Reply(
        UNSEALED, checksum(payload), r.cluster, HEADER_BYTES + len(payload), r.durable_view,
        r.release, Command.REPLY.value, r.replica_id, identity, ZERO, client, op, r.commit_max,
        0, request, operation, r.group, status,
    ), payload)
    # fmt: on
