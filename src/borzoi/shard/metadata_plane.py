"""The control plane: check → clear the target → log → apply → carry out, one proposal at a time.

A command is in the state log before its result is visible, and a command that would be refused is
never logged. Joins, leaves and handovers take the same path but are not logged: they end with the
connections they belong to.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeAlias

from borzoi.metadata import snapshot
from borzoi.metadata.commands import decode_command, encode_command, is_logged
from borzoi.metadata.effects import ApplyResult, Effect
from borzoi.metadata.groups import VolatileCommand
from borzoi.metadata.machine import Entry, apply, verify
from borzoi.metadata.planned import Planned, planned
from borzoi.metadata.proposals import Proposal
from borzoi.metadata.state import Metadata
from borzoi.metadata.topics import TopicDefaults, resolved
from borzoi.model.errors import BorzoiError
from borzoi.protocol.commands.topics import CreateTopic, UpdateTopic
from borzoi.storage.state_log import RecoveredState, StateLog

log = logging.getLogger(__name__)

#: Carries out an effect and returns the volatile commands that follow from it.
CarryOut: TypeAlias = Callable[[Effect], Awaitable[Sequence[VolatileCommand]]]
#: Removes leftovers from the directory of something about to be created, or raises.
ClearTarget: TypeAlias = Callable[[Planned], Awaitable[None]]


def recovered_state(
    recovered: RecoveredState,
    effects: list[Effect] | None = None,
    *,
    settled_index: int = -1,
    unsettled: list[Effect] | None = None,
) -> Metadata:
    """Return the state after the snapshot and the entries that follow it.

    The effects of the entries are added to `effects`: a server that was killed after the last
    entry may not have carried them out. Those after entry `settled_index` are added to `unsettled`
    as well.
    """
    stored = recovered.snapshot
    state = Metadata() if stored is None else snapshot.decode(stored.body)
    for entry in recovered.entries:
        command = decode_command(entry.code, entry.command)
        try:
            outcome = apply(state, Entry(entry.timestamp, entry.user_id, command))
        except BorzoiError as refusal:
            # Commands are checked before they are logged, so every replica rejects this one.
            log.warning("rejecting entry %d of the metadata log: %s", entry.index, refusal)
        else:
            if effects is not None:
                effects += outcome.effects
            if unsettled is not None and entry.index > settled_index:
                unsettled += outcome.effects
    state.check()
    return state


class Copies(Protocol):
    """The other shards of the server, each with a copy of the metadata."""

    @property
    def is_complete(self) -> bool:
        """Whether every other shard is present and has the state."""
        ...

    async def completed(self) -> None:
        """Wait until all shards are present; `ShardUnavailable` when it takes too long."""
        ...

    async def spread(self, entry: Entry) -> Sequence[VolatileCommand]:
        """Make all others apply the entry and carry out their part.

        Returns the commands that follow from it. A shard that dies meanwhile is skipped: the
        process that replaces it begins with the state after the entry."""
        ...


class MetadataPlane:
    """The one writer of the metadata of this server."""

    def __init__(
        self,
        state: Metadata,
        state_log: StateLog,
        *,
        defaults: TopicDefaults,
        clock: Callable[[], int],
        sync_each: bool,
    ) -> None:
        self.state = state
        #: Counts logged changes: data derived from streams, topics and users is valid until it
        #: changes.
        self.revision = 0
        #: Counts changes of group membership.
        self.membership_revision = 0
        self.defaults = defaults
        #: The last log entry whose effects were carried out.
        self.settled_index = state_log.next_index - 1
        self._log = state_log
        self._clock = clock
        self._sync_each = sync_each
        self._turn = asyncio.Lock()
        self._carry_out: CarryOut | None = None
        self._clear_target: ClearTarget | None = None
        #: The other shards, which apply every change as well; None when there are none.
        self._copies: Copies | None = None

    def bind_copies(self, copies: "Copies") -> None:
        """Set what carries every change to the other shards; called once."""
        self._copies = copies

    async def snapshot(self) -> bytes:
        """Return the state between two changes, members included, for a shard that starts."""
        async with self._turn:
            return snapshot.encode(self.state, members=True)

    def bind_effects(self, carry_out: CarryOut, clear_target: ClearTarget | None = None) -> None:
        """Set what happens after a change and what has to happen before it; called once, when the
        server is assembled."""
        self._carry_out = carry_out
        self._clear_target = clear_target

    async def submit(self, proposal: Proposal) -> ApplyResult:
        """Make the change, or raise the reason to refuse it; once this returns it is visible.

        Guards are checked when the proposal's turn has come. The waiting caller may be cancelled;
        the change itself is completed or never begun. `ShardUnavailable` when another shard that
        has to apply it does not come back.
        """
        copies = self._copies
        while True:
            if copies is not None:
                await copies.completed()
            async with self._turn:
                if copies is None or copies.is_complete:
                    return await self._submit(proposal)

    async def _submit(self, proposal: Proposal) -> ApplyResult:
        command = proposal.command
        # Resolve "server default" before logging: a later start with other settings must not
        # change an existing topic.
        if isinstance(command, CreateTopic):
            command = resolved(command, self.defaults)
        if isinstance(command, UpdateTopic):
            command = resolved(command, self.defaults)
        entry = Entry(self._clock(), proposal.user_id, command, proposal.guards)
        verify(self.state, entry)
        return await _shielded(self._change(entry))

    async def _change(self, entry: Entry) -> ApplyResult:
        if is_logged(entry.command):
            target = planned(self.state, entry.command)
            if target is not None and self._clear_target is not None:
                await self._clear_target(target)
            await self._write(entry)
        outcome = apply(self.state, entry)
        if is_logged(entry.command):
            self.revision += 1
        else:
            self.membership_revision += 1
        failure = await self._carry_out_all(entry, outcome.effects)
        self.settled_index = self._log.next_index - 1
        self._take_snapshot(entry.at)
        if failure is not None:
            raise failure
        return outcome

    def _take_snapshot(self, at: int) -> None:
        if not self._log.wants_snapshot:
            return
        try:
            self._log.take_snapshot(snapshot.encode(self.state), timestamp=at)
        except BorzoiError as fault:
            # All entries are in the log; only the next start takes longer.
            log.warning("could not take a snapshot of the metadata: %s", fault)

    async def _write(self, entry: Entry) -> None:
        code, command = encode_command(entry.command)

        def append() -> None:
            self._log.append(timestamp=entry.at, user_id=entry.user_id, code=code, command=command)

        if self._sync_each:
            await asyncio.to_thread(append)
        else:
            append()

    async def _carry_out_all(self, entry: Entry, effects: Sequence[Effect]) -> Exception | None:
        """Carry out every effect of an entry and of the commands that follow from it, here and on
        the other shards. The change is in force, so one effect that fails must not stop the
        others. Returns the first failure, for the caller."""
        due = deque([(entry, effects)])
        failure: Exception | None = None
        while due:
            applied, effects = due.popleft()
            commands: list[VolatileCommand] = []
            if self._copies is not None:
                try:
                    commands += await self._copies.spread(applied)
                except Exception as fault:
                    log.error("%s failed on another shard: %s", applied.command, fault)  # noqa: TRY400
                    failure = failure or fault
            for effect in effects:
                try:
                    if self._carry_out is not None:
                        commands += await self._carry_out(effect)
                except Exception as fault:
                    log.error("could not carry out %s completely: %s", effect, fault)  # noqa: TRY400
                    failure = failure or fault
            for command in commands:
                following = Entry(self._clock(), entry.user_id, command)
                due.append((following, apply(self.state, following).effects))
                self.membership_revision += 1
        return failure

    def close(self) -> None:
        self._log.close()


async def _shielded(change: Coroutine[Any, Any, ApplyResult]) -> ApplyResult:
    """Run the change to completion, also when the caller is cancelled; re-raise that afterwards.

    An entry that a thread is writing cannot be withdrawn. Abandoning it would let the next command
    be checked against a state that is behind the log.
    """
    task = asyncio.get_running_loop().create_task(change)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as cancellation:
            cancelled = cancellation
    if cancelled is not None:
        task.exception()  # retrieved: the caller was cancelled
        raise cancelled
    return task.result()
