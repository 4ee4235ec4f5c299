"""The copy of the metadata on a shard that does not write it.

It is read like the original. Proposals go to the writer, and are answered when this copy has
applied them too. When the process of the writer is replaced, the copy restarts from the state of
the new one: the last entry of the old one may have been logged and not sent.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from borzoi.metadata import snapshot
from borzoi.metadata.commands import is_logged
from borzoi.metadata.effects import ApplyResult
from borzoi.metadata.groups import VolatileCommand
from borzoi.metadata.machine import apply
from borzoi.metadata.proposals import Proposal, encode_proposal
from borzoi.metadata.state import Metadata
from borzoi.model.errors import BorzoiError, ShardUnavailable
from borzoi.shard.bus import Arrived, Bus, Letter
from borzoi.shard.created import decode_created
from borzoi.shard.envelopes import Subject
from borzoi.shard.metadata_copies import decode_entry, encode_commands
from borzoi.shard.metadata_plane import CarryOut
from borzoi.shard.routing import WRITER

log = logging.getLogger(__name__)

#: Updates the partitions of a shard from the first state to the second.
Follow: TypeAlias = Callable[[Metadata, Metadata], Awaitable[None]]


class MetadataCopy:
    """The metadata of a shard that does not write it."""

    def __init__(self, bus: Bus) -> None:
        self.state = Metadata()
        #: As in `MetadataPlane`.
        self.revision = 0
        self.membership_revision = 0
        self._bus = bus
        self._carry_out: CarryOut | None = None
        self._follow: Follow | None = None
        self._joining: asyncio.Task[None] | None = None

    async def join(self) -> None:
        """Fetch the initial state, however long the writer takes to start."""
        while True:
            try:
                self.state = await self._taken()
            except ShardUnavailable as fault:
                log.info("no metadata yet: %s", fault)
            else:
                return

    async def _taken(self) -> Metadata:
        found = await self._bus.request(WRITER, Subject.JOIN, urgent=True)
        return snapshot.decode(bytes(found.body))

    def bind_effects(self, carry_out: CarryOut, follow: Follow) -> None:
        """Start to apply entries; called once, when the initial state is in place."""
        self._carry_out = carry_out
        self._follow = follow
        self._bus.answer(Subject.ENTRY, self._entry)
        self._bus.when_there.append(self._appeared)
        self._bus.tell(WRITER, Subject.JOINED)

    async def submit(self, proposal: Proposal) -> ApplyResult:
        """As `MetadataPlane.submit`; `ShardUnavailable` when the writer dies or does not come back:
        then the change may or may not have been made."""
        message = Letter(encode_proposal(proposal))
        found = await self._bus.request(
            WRITER, Subject.PROPOSAL, message, urgent=True, cancellable=True
        )
        return ApplyResult(decode_created(found.body))

    async def _entry(self, asked: Arrived) -> Letter:
        assert self._carry_out is not None, "entries come after the first state"
        entry = decode_entry(asked.body)
        try:
            outcome = apply(self.state, entry)
        except BorzoiError:
            # The writer applied it, so this copy has diverged: fetch the state again.
            log.exception("this copy rejects an entry of the metadata")
            self._join_again()
            raise
        if is_logged(entry.command):
            self.revision += 1
        else:
            self.membership_revision += 1
        commands: list[VolatileCommand] = []
        failure: Exception | None = None
        for effect in outcome.effects:
            try:
                commands += await self._carry_out(effect)
            except Exception as fault:
                log.error("could not carry out %s completely: %s", effect, fault)  # noqa: TRY400
                failure = failure or fault
        if failure is not None:
            raise failure
        return Letter(encode_commands(commands))

    # A new writer.

    def _appeared(self, shard: int) -> None:
        if shard == WRITER:
            self._join_again()

    def _join_again(self) -> None:
        if self._joining is not None:
            self._joining.cancel()
        self._joining = asyncio.get_running_loop().create_task(self._joined_again())

    async def _joined_again(self) -> None:
        assert self._follow is not None, "the first state is there"
        try:
            after = await self._taken()
        except ShardUnavailable as fault:
            log.warning("could not get the metadata of the new writer: %s", fault)
            return  # the next one is reported as well
        before, self.state = self.state, after
        self.revision += 1
        self.membership_revision += 1
        await self._follow(before, after)
        self._bus.tell(WRITER, Subject.JOINED)

    def close(self) -> None:
        if self._joining is not None:
            self._joining.cancel()
