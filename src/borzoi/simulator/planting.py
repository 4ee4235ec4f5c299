"""Planted bugs: each breaks one rule of the core, and the checkers must notice.

A bug is a change of the core's source text, kept here so that the core itself has no switch for it.
`plant` compiles the changed functions and gives their code to the functions of the running
process; leaving the block puts the original code back. A text that the core no longer contains is
an error, so a bug cannot turn into no change unnoticed.
"""

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pkgutil import resolve_name
from textwrap import dedent
from types import CodeType, FunctionType, MappingProxyType
from typing import Final, NamedTuple


class Edit(NamedTuple):
    """One change: `function` of borzoi.consensus says `new` instead of `old`."""

    function: str
    old: str
    new: str


class LostEdit(LookupError):
    """The text that a planted bug changes is not there exactly once."""


# fmt: off
BUGS: Final[Mapping[str, tuple[Edit, ...]]] = MappingProxyType({
    "view_not_persisted": (Edit(
        "state:ReplicaState.flush_superblock",
        "view=self.view,\n        log_view=self.log_view,",
        "view=max(0, self.view - 1),\n        log_view=min(self.log_view, max(0, self.view - 1)),",
    ),),
    "suffix_not_persisted": (Edit(
        "state:ReplicaState.flush_superblock", "suffix=suffix,", "suffix=self.durable_suffix,",
    ),),
    "commit_not_persisted": (Edit(
        "state:ReplicaState.flush_superblock",
        "commit=min(self.commit_max, self.op),",
        "commit=self.checkpoint_op,",
    ),),
    "ack_before_fsync": (
        Edit("state:ReplicaState.journal", "(header, WRITING, body)", "(header, DURABLE, body)"),
        Edit(
            "following:_take_new",
            "    learn_commit(r, header.commit)",
            """    r.advance_durable_prefix()
    acknowledge(r)
    learn_commit(r, header.commit)""",
        ),
    ),
    "ack_before_superblock": (Edit(
        "following:acknowledge", "if not r.log_is_durable():", "if False:",
    ),),
    "ack_skips_hole": (
        Edit("following:acknowledge", "    op = r.durable_prefix", """
    from borzoi.consensus.state import DURABLE
    op = next((
        op for op in range(r.op, r.durable_prefix, -1)
        if op in r.canon and (entry := r.entries.get(r.canon[op].checksum)) is not None
        and entry.held == DURABLE
    ), r.durable_prefix)"""),
        Edit(
            "replica:Replica.on_written",
            "elif self.advance_durable_prefix():",
            "elif self.advance_durable_prefix() or True:",
        ),
    ),
    "ack_by_op_number": (Edit(
        "normal:on_prepare_ok", "if ours.checksum != header.prepare_checksum:", "if False:",
    ),),
    "own_ack_before_fsync": (Edit(
        "state:ReplicaState.journal",
        "(header, WRITING, body)",
        "(header, DURABLE if self.leads_view() else WRITING, body)",
    ),),
    "nack_quorum_of_one": (Edit(
        "view_change:decide", "nack_quorum=r.quorums.nack", "nack_quorum=1",
    ),),
    "corrupt_entry_nacked": (Edit(
        "view_change:build_do_view_change",
        "        elif entry.held != FAULTY:",
        "        elif entry.held == FAULTY:\n            nacks |= 1 << slot\n        else:",
    ),),
    "truncate_without_copy": (Edit(
        "merge:merge",
        'return Undecided(op, "header unknown" if header is None else "no readable copy")',
        "break",
    ),),
    "blank_is_nack": (
        Edit("merge:merge", "_fill_by_chain(known, claims, commit, head)", "pass"),
        Edit("merge:_nacks", "if header is not None and held.", "if header is None or held."),
    ),
    "merge_ignores_log_view": (Edit(
        "merge:merge",
        "max(claim.log_view for claim in claims)",
        "max(claims, key=lambda claim: claim.op).log_view",
    ),),
    "second_dvc_counts": (Edit(
        "view_change:count_claim", "if header.replica in r.claims:", "if False:",
    ),),
    "dvc_rebuilt_on_resend": (Edit(
        "view_change:send_do_view_change",
        "header, body = r.do_view_change",
        "header, body = r.do_view_change = build_do_view_change(r)",
    ),),
    "adopt_drops_unverified": (Edit(
        "view_change:install_suffix",
        "    r.op = head",
        """    kept = {header.checksum for header in r.canon.values()}
    r.entries = {c: e for c, e in r.entries.items() if c in kept}
    r.op = head""",
    ),),
    "amnesia_rejoin": (Edit(
        "recovery:_start_empty",
        "    if restored.wiped:",
        """    if restored.wiped:
        r.status = NORMAL
        r.persist()
    elif restored.wiped:""",
    ),),
    "wiped_acks_before_barrier": (Edit(
        "new_view:adopt", "r.barrier = header.op + 1", "r.barrier = 0",
    ),),
    "forgetful_counts": (Edit(
        "normal:has_forgotten", "return r.forgetful.get(replica) == r.view", "return False",
    ),),
    "primary_resumes_view": (Edit(
        "recovery:_resume",
        "    elif r.elects:",
        """    elif True:
        from borzoi.consensus.new_view import become_primary
        r.status = VIEW_CHANGE
        become_primary(r)
    elif r.elects:""",
    ),),
    "view_change_quorum_minus_one": (
        Edit(
            "view_change:leave_on_quorum", "r.quorums.view_change", "r.quorums.view_change - 1",
        ),
        Edit("view_change:count_claim", "r.quorums.view_change", "r.quorums.view_change - 1"),
    ),
    "replication_quorum_minus_one": (Edit(
        "normal:advance_commit", "r.quorums.replication", "r.quorums.replication - 1",
    ),),
    "apply_uncanonical": (Edit(
        "applying:apply_committed",
        "header = r.canon.get(op)",
        """header = r.canon.get(op)
        if header is None:
            header = next((e.header for e in r.entries.values() if e.header.op == op), None)""",
    ),),
    "repair_by_op_number": (
        Edit(
            "following:_take_known",
            "    canonical = r.canon.get(op)",
            """    canonical = r.canon.get(op)
    if canonical is not None and op > r.commit_min:
        r.canon[op] = canonical = header""",
        ),
        Edit(
            "repair:on_request_prepare",
            "    entry = r.entries.get(header.prepare_checksum)",
            """    entry = r.entries.get(header.prepare_checksum)
    if entry is None and header.op in r.canon:
        entry = r.entries.get(r.canon[header.op].checksum)""",
        ),
    ),
    "stale_prepare_accepted": (Edit(
        "following:on_prepare",
        "if header.view == r.view and op > r.op:",
        "if op > r.op and (header.view == r.view or r.canon[r.op].checksum == header.parent):",
    ),),
    "start_view_without_suffix": (Edit(
        "view_change:send_start_view", "list(r.suffix())", "list(r.suffix())[-1:]",
    ),),
    "start_view_before_repair": (Edit(
        "new_view:try_start_view", "if r.durable_prefix < r.op:", "if False:",
    ),),
    "stale_commit_accepted": (Edit(
        "following:on_commit",
        "    if not current:",
        """    if not current:
        if r.follows_log():
            learn_commit(r, min(header.commit, r.op))""",
    ),),
    "client_table_not_in_checkpoint": (Edit(
        "checkpointing:take", "r.client_table.encode()", 'b""',
    ),),
    "duplicate_request_executed": (
        Edit(
            "normal:on_request",
            "if queued.client != ZERO and r.pipeline.holds(queued.client, queued.request):",
            "if False:",
        ),
        Edit("normal:_propose", "elif client != ZERO:", "elif False:"),
    ),
    "lease_never_lapses": (Edit(
        "heartbeat:may_read",
        "return contacts_since(r, _lease_began(r, monotonic_us)) >= r.quorums.replication",
        "return True",
    ),),
    "join_first_vote": (Edit(
        "view_change:on_start_view_change",
        "    leave_on_quorum(r)",
        "    leave_on_quorum(r) if r.voting else vote(r)",
    ),),
    "genesis_with_majority": (Edit(
        "recovery:_format_when_all_empty", "== r.replica_count", "> r.replica_count // 2",
    ),),
    "truncate_before_checkpoint_durable": (Edit(
        "checkpointing:take",
        "    r.effects.append(WriteCheckpoint(",
        "    r.effects.append(TruncateJournal(header.op))\n    r.effects.append(WriteCheckpoint(",
    ),),
    "transfer_keeps_stale_journal": (Edit(
        "state_transfer:_forget_history", "    kept = {}", "    return\n    kept = {}",
    ),),
    "old_heartbeat_accepted": (Edit(
        "following:on_commit",
        "if header.timestamp_monotonic <= r.heard_monotonic:",
        "if False:",
    ),),
    "repair_only_on_messages": (Edit(
        "repair:on_timer", "    r.repairing.clear()", "    return False\n    r.repairing.clear()",
    ),),
    "backoff_never_reset": (Edit(
        "normal:advance_commit",
        "if pipeline.entries:\n        r.timers.start(Timer.PREPARE)",
        "if False:\n        r.timers.start(Timer.PREPARE)",
    ),),
    "timestamp_from_local_clock": (Edit(
        "normal:next_timestamp", "return wall if wall > following else following", "return wall",
    ),),
    "reordered_prepare_dropped": (Edit(
        "following:_take_new", "if len(r.future) < FUTURE_MAX:", "if False:",
    ),),
    "stamped_from_applied_end": (Edit(
        "normal:_propose",
        "        stamped = r.machine.stamp(",
        "        r.machine.forget_prepared()\n        stamped = r.machine.stamp(",
    ),),
    "generation_not_in_checkpoint": (Edit(
        "data_plane:DataPlane.restore", "= first, end, generation", "= first, end, 0",
    ),),
})
# fmt: on


@contextmanager
def plant(*names: str) -> Iterator[None]:
    """The core with these bugs, in this process, until the block ends; blocks do not nest."""
    changes = _changes(names)
    codes = {function: _changed_code(function, edits) for function, edits in changes.items()}
    originals = {function: function.__code__ for function in codes}
    try:
        for function, code in codes.items():
            function.__code__ = code
        yield
    finally:
        for function, code in originals.items():
            function.__code__ = code


def _changes(names: tuple[str, ...]) -> dict[FunctionType, list[Edit]]:
    changes: dict[FunctionType, list[Edit]] = {}
    for name in names:
        if name not in BUGS:
            raise LookupError(f"there is no planted bug {name!r}; known are {', '.join(BUGS)}")
        for edit in BUGS[name]:
            function = resolve_name(f"borzoi.consensus.{edit.function}")
            changes.setdefault(function, []).append(edit)
    return changes


def _changed_code(function: FunctionType, edits: list[Edit]) -> CodeType:
    source = dedent(inspect.getsource(function))
    for edit in edits:
        if source.count(edit.old) != 1:
            raise LostEdit(f"{edit.function} does not contain exactly once: {edit.old!r}")
        source = source.replace(edit.old, edit.new)
    # A file name of its own: coverage must not count this for lines of the core.
    compiled = compile(source, f"<planted in {function.__qualname__}>", "exec", dont_inherit=True)
    return next(
        one
        for one in compiled.co_consts
        if isinstance(one, CodeType) and one.co_name == function.__name__
    )
