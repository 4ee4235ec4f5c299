"""The metadata on the shard that writes it, and its copies on the others: the writer's side.

A shard that starts gets the state, and from then on every entry in order. A change begins when all
shards are present, and is answered when all have applied it and carried out their part, so every
connection sees it. A shard that dies in the middle is skipped: the process that replaces it begins
with the state after the entry.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

import msgspec

from borzoi.metadata.commands import decode_command, encode_command
from borzoi.metadata.groups import ClientGone, JoinGroup, VolatileCommand
from borzoi.metadata.machine import Entry
from borzoi.metadata.proposals import Proposal, decode_proposal
from borzoi.model.errors import BorzoiError, ShardUnavailable, StaleClient, StateCorrupted
from borzoi.shard.bus import Arrived, Bus, Letter
from borzoi.shard.created import encode_created
from borzoi.shard.envelopes import Subject
from borzoi.shard.leaving import leave_groups
from borzoi.shard.metadata_plane import MetadataPlane

log = logging.getLogger(__name__)

#: How long a change waits for missing shards.
INCOMPLETE_SECONDS_MAX: Final = 10.0

_ENCODER: Final = msgspec.msgpack.Encoder()
_COMMANDS: Final = msgspec.msgpack.Decoder(list[tuple[int, bytes]])
_ENTRY: Final = msgspec.msgpack.Decoder(tuple[int, int, int, bytes])


def encode_entry(entry: Entry) -> bytes:
    """Encode an entry without its guards, which the writer has checked."""
    return _ENCODER.encode((entry.at, entry.user_id, *encode_command(entry.command)))


def decode_entry(body: bytes | memoryview) -> Entry:
    try:
        at, user_id, code, command = _ENTRY.decode(body)
    except msgspec.MsgspecError as error:
        raise StateCorrupted(f"the entry cannot be read: {error}") from error
    return Entry(at, user_id, decode_command(code, command))


def encode_commands(commands: Sequence[VolatileCommand]) -> bytes:
    return _ENCODER.encode([encode_command(command) for command in commands])


def decode_commands(body: bytes | memoryview) -> list[VolatileCommand]:
    commands: list[VolatileCommand] = []
    for code, command in _COMMANDS.decode(body):
        decoded = decode_command(code, command)
        if not isinstance(decoded, VolatileCommand):
            raise StateCorrupted(f"{type(decoded).__name__} does not follow from an entry")
        commands.append(decoded)
    return commands


class MetadataCopies:
    """The writer's view of the other shards: which have the state, and how changes reach them."""

    def __init__(self, bus: Bus, plane: MetadataPlane) -> None:
        self._bus = bus
        self._plane = plane
        self._joined: set[int] = set()
        self._changed = asyncio.Event()
        #: The shard of each client that has joined a group.
        self._clients: dict[int, int] = {}
        self._leaving: set[asyncio.Task[object]] = set()
        plane.bind_copies(self)
        bus.when_lost.append(self._lost)
        bus.answer(Subject.JOIN, self._join)
        bus.answer(Subject.JOINED, self._has_joined)
        bus.answer(Subject.PROPOSAL, self._propose)

    # Presence.

    @property
    def is_complete(self) -> bool:
        return len(self._joined) == self._bus.count - 1

    async def completed(self) -> None:
        try:
            async with asyncio.timeout(INCOMPLETE_SECONDS_MAX):
                while not self.is_complete:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            missing = sorted(set(self._bus.others) - self._joined)
            raise ShardUnavailable(f"the metadata waits for shards {missing}") from None

    async def _join(self, asked: Arrived) -> Letter:
        self._joined.discard(asked.shard)
        return Letter(await self._plane.snapshot())

    def _has_joined(self, told: Arrived) -> Letter:
        self._joined.add(told.shard)
        self._changed.set()
        return Letter()

    def _lost(self, shard: int) -> None:
        """A shard was lost, and its clients with it."""
        self._joined.discard(shard)
        for client_id in [one for one, where in self._clients.items() if where == shard]:
            self._leave(client_id)

    def _leave(self, client_id: int) -> None:
        del self._clients[client_id]
        task = asyncio.get_running_loop().create_task(leave_groups(self._plane.submit, client_id))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    # Changes.

    async def spread(self, entry: Entry) -> Sequence[VolatileCommand]:
        message = Letter(encode_entry(entry))
        asked = [
            (shard, self._bus.request(shard, Subject.ENTRY, message, urgent=True))
            for shard in sorted(self._joined)
        ]
        commands: list[VolatileCommand] = []
        failure: BorzoiError | None = None
        for shard, answer in asked:
            try:
                commands += decode_commands((await answer).body)
            except ShardUnavailable:
                log.warning("shard %d died while it applied an entry", shard)
            except BorzoiError as fault:
                failure = failure or fault
        if failure is not None:
            raise failure
        return commands

    async def _propose(self, asked: Arrived) -> Letter:
        proposal = decode_proposal(asked.body)
        self._note_client(asked.shard, proposal)
        outcome = await self._plane.submit(proposal)
        return Letter(encode_created(outcome.created))

    def _note_client(self, shard: int, proposal: Proposal) -> None:
        match proposal.command:
            case JoinGroup(client_id=client_id):
                known = self._clients.get(client_id)
                is_taken = known is None and client_id in self._plane.state.memberships
                if is_taken or known not in (None, shard):
                    # Two addresses with the same hash: the client has to reconnect from another
                    # one.
                    raise StaleClient(f"client {client_id} is known on another shard")
                self._clients[client_id] = shard
            case ClientGone(client_id=client_id):
                if self._clients.get(client_id) == shard:
                    del self._clients[client_id]
            case _:
                pass
