"""The control plane: check → make way → log → apply → carry out, one command after another.

A command is in the state log before anyone can see its result, and a command that would be refused
never gets there. Joins, leaves and handovers go through the same door but are not logged: they end
with the connections they are about.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeAlias

from borzoi.metadata import snapshot
from borzoi.metadata.coming import Coming, coming
from borzoi.metadata.commands import Command, decode_command, encode_command, is_logged
from borzoi.metadata.effects import Effect, Outcome
from borzoi.metadata.groups import VolatileCommand
from borzoi.metadata.machine import Entry, apply, verify
from borzoi.metadata.state import Metadata
from borzoi.metadata.topics import TopicDefaults, resolved
from borzoi.model.errors import BorzoiError, StateCorrupted
from borzoi.protocol.commands.topics import CreateTopic, UpdateTopic
from borzoi.storage.state_log import Recovered, StateLog

log = logging.getLogger(__name__)

#: Carries an effect out and says which volatile commands follow from it.
CarryOut: TypeAlias = Callable[[Effect], Awaitable[Sequence[VolatileCommand]]]
#: Clears the place of what is about to be created, or raises what prevents it.
MakeWay: TypeAlias = Callable[[Coming], Awaitable[None]]


def recovered_state(recovered: Recovered, effects: list[Effect] | None = None) -> Metadata:
    """The state that the snapshot and the entries after it amount to.

    What followed from the entries is added to `effects`: whoever was killed behind the last entry
    may not have come to it.
    """
    stored = recovered.snapshot
    state = Metadata() if stored is None else snapshot.decode(stored.body)
    for entry in recovered.entries:
        command = decode_command(entry.code, entry.command)
        try:
            outcome = apply(state, Entry(entry.timestamp, entry.user_id, command))
        except BorzoiError as refusal:
            # Commands are checked before they are logged; whatever is refused here was refused then
            # as well, by every replica.
            log.warning("entry %d of the metadata log is refused: %s", entry.index, refusal)
        else:
            if effects is not None:
                effects += outcome.effects
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
        #: Grows with every change, so that what was derived from the state can be kept until then.
        self.revision = 0
        self.defaults = defaults
        self._log = state_log
        self._clock = clock
        self._sync_each = sync_each
        self._turn = asyncio.Lock()
        self._carry_out: CarryOut | None = None
        self._make_way: MakeWay | None = None

    def carried_out_by(self, carry_out: CarryOut, make_way: MakeWay | None = None) -> None:
        """Who does what follows from a change, and what has to come before it; said once, when the
        server is put together."""
        self._carry_out = carry_out
        self._make_way = make_way

    async def create(
        self, command: Command, *, user_id: int, provided: Callable[[], None] | None = None
    ) -> int:
        """The id of what the command creates."""
        outcome = await self.submit(command, user_id=user_id, provided=provided)
        if outcome.created_id is None:
            raise StateCorrupted(f"{type(command).__name__} created nothing")
        return outcome.created_id

    async def submit(
        self, command: Command, *, user_id: int, provided: Callable[[], None] | None = None
    ) -> Outcome:
        """Make the change, or raise what refuses it; when this returns everyone can see it.

        `provided` is asked when the turn has come, and refuses by raising. Whoever waits for the
        change may be cancelled; the change itself is made to its end or not at all.
        """
        async with self._turn:
            # What is logged holds no "server default": a later start with other settings must not
            # change what a topic was created with.
            if isinstance(command, CreateTopic):
                command = resolved(command, self.defaults)
            if isinstance(command, UpdateTopic):
                command = resolved(command, self.defaults)
            entry = Entry(self._clock(), user_id, command)
            if provided is not None:
                provided()
            verify(self.state, entry)
            return await _to_its_end(self._change(entry))

    async def _change(self, entry: Entry) -> Outcome:
        if is_logged(entry.command):
            comes = coming(self.state, entry.command)
            if comes is not None and self._make_way is not None:
                await self._make_way(comes)
            await self._write(entry)
        outcome = apply(self.state, entry)
        self.revision += 1
        failure = await self._carry_out_all(outcome.effects, entry.user_id)
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
        """Do what follows, all of it: the change is in force, and one effect that fails must not
        keep the others from happening. The first failure is for who asked."""
        waiting = list(effects)
        failure: Exception | None = None
        while waiting and self._carry_out is not None:
            effect = waiting.pop(0)
            try:
                for command in await self._carry_out(effect):
                    waiting += apply(self.state, Entry(self._clock(), user_id, command)).effects
            except Exception as fault:
                log.error("%s was not carried out in full: %s", effect, fault)  # noqa: TRY400
                failure = failure or fault
        return failure

    def close(self) -> None:
        self._log.close()


async def _to_its_end(change: Coroutine[Any, Any, Outcome]) -> Outcome:
    """The outcome, also when whoever waits is cancelled: that is passed on afterwards.

    An entry that a thread is writing cannot be called back. Leaving it half-way would let the
    next command be checked against a state that the log has left behind.
    """
    task = asyncio.get_running_loop().create_task(change)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as cancellation:
            cancelled = cancellation
    if cancelled is not None:
        task.exception()  # looked at: nobody is left to be told
        raise cancelled
    return task.result()
