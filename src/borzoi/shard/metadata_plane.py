"""The control plane: check → clear the target → log → apply → carry out, one proposal at a time.

A command is in the state log before its result is visible, and a command that would be refused is
never logged. Joins, leaves and handovers take the same path but are not logged: they end with the
connections they belong to.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeAlias

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

#: Carries an effect out and returns the volatile commands that follow from it.
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
    """The state that the snapshot and the entries after it amount to.

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
            # Commands are checked before they are logged, so this one was refused then as well,
            # by every replica.
            log.warning("entry %d of the metadata log is refused: %s", entry.index, refusal)
        else:
            if effects is not None:
                effects += outcome.effects
            if unsettled is not None and entry.index > settled_index:
                unsettled += outcome.effects
    state.check()
    return state


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
        #: Counts logged changes: what was derived from streams, topics and users holds until then.
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

    def bind_effects(self, carry_out: CarryOut, clear_target: ClearTarget | None = None) -> None:
        """Set what happens after a change and what has to happen before it; called once, when the
        server is assembled."""
        self._carry_out = carry_out
        self._clear_target = clear_target

    async def submit(self, proposal: Proposal) -> ApplyResult:
        """Make the change, or raise the reason to refuse it; once this returns it is visible.

        Guards are checked when the proposal's turn has come. The waiting caller may be cancelled;
        the change itself is completed or never begun.
        """
        async with self._turn:
            command = proposal.command
            # What is logged holds no "server default": a later start with other settings must not
            # change what a topic was created with.
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
        failure = await self._carry_out_all(outcome.effects, entry.user_id)
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
            # The entries are all in the log; only the next start takes longer.
            log.warning("no snapshot of the metadata was taken: %s", fault)

    async def _write(self, entry: Entry) -> None:
        code, command = encode_command(entry.command)

        def append() -> None:
            self._log.append(timestamp=entry.at, user_id=entry.user_id, code=code, command=command)

        if self._sync_each:
            await asyncio.to_thread(append)
        else:
            append()

    async def _carry_out_all(self, effects: Sequence[Effect], user_id: int) -> Exception | None:
        """Carry out every effect: the change is in force, and one effect that fails must not stop
        the others. Returns the first failure, for the caller."""
        waiting = list(effects)
        failure: Exception | None = None
        while waiting and self._carry_out is not None:
            effect = waiting.pop(0)
            try:
                for command in await self._carry_out(effect):
                    waiting += apply(self.state, Entry(self._clock(), user_id, command)).effects
                    self.membership_revision += 1
            except Exception as fault:
                log.error("%s was not carried out in full: %s", effect, fault)  # noqa: TRY400
                failure = failure or fault
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
        task.exception()  # retrieved: there is no caller left to receive it
        raise cancelled
    return task.result()
