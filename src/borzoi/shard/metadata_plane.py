"""The control plane: check → log → apply → carry out, one command after another.

A command is in the state log before anyone can see its result, and a command that would be refused
never gets there. Joins, leaves and handovers go through the same door but are not logged: they end
with the connections they are about.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from borzoi.metadata import snapshot
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


def recovered_state(recovered: Recovered) -> Metadata:
    """The state that the snapshot and the entries after it amount to."""
    stored = recovered.snapshot
    state = Metadata() if stored is None else snapshot.decode(stored.body)
    for entry in recovered.entries:
        command = decode_command(entry.code, entry.command)
        try:
            apply(state, Entry(entry.timestamp, entry.user_id, command))
        except BorzoiError as refusal:
            # Commands are checked before they are logged; whatever is refused here was refused then
            # as well, by every replica.
            log.warning("entry %d of the metadata log is refused: %s", entry.index, refusal)
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

    def carried_out_by(self, carry_out: CarryOut) -> None:
        """Who does what follows from a change; said once, when the server is put together."""
        self._carry_out = carry_out

    async def create(self, command: Command, *, user_id: int) -> int:
        """The id of what the command creates."""
        outcome = await self.submit(command, user_id=user_id)
        if outcome.created_id is None:
            raise StateCorrupted(f"{type(command).__name__} created nothing")
        return outcome.created_id

    async def submit(self, command: Command, *, user_id: int) -> Outcome:
        """Make the change, or raise what refuses it; when this returns everyone can see it."""
        async with self._turn:
            # What is logged holds no "server default": a later start with other settings must not
            # change what a topic was created with.
            if isinstance(command, CreateTopic):
                command = resolved(command, self.defaults)
            if isinstance(command, UpdateTopic):
                command = resolved(command, self.defaults)
            entry = Entry(self._clock(), user_id, command)
            verify(self.state, entry)
            if is_logged(command):
                await self._write(entry)
            outcome = apply(self.state, entry)
            self.revision += 1
            if self._log.wants_snapshot:
                self._log.take_snapshot(snapshot.encode(self.state), timestamp=entry.at)
            await self._carry_out_all(outcome.effects, user_id)
            return outcome

    async def _write(self, entry: Entry) -> None:
        code, command = encode_command(entry.command)

        def append() -> None:
            self._log.append(timestamp=entry.at, user_id=entry.user_id, code=code, command=command)

        if self._sync_each:
            await asyncio.to_thread(append)
        else:
            append()

    async def _carry_out_all(self, effects: Sequence[Effect], user_id: int) -> None:
        waiting = list(effects)
        while waiting and self._carry_out is not None:
            for command in await self._carry_out(waiting.pop(0)):
                waiting += apply(self.state, Entry(self._clock(), user_id, command)).effects

    def close(self) -> None:
        self._log.close()
