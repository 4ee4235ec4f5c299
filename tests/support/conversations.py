"""A listener that notes what a conversation asks of it, and frames to feed it."""

import asyncio
from dataclasses import dataclass, field

from tests.support.embedded import EmbeddedServer, asked, whole
from tests.support.listening import PATIENCE_SECONDS
from tests.support.sends import send_frame

from borzoi.handlers.sessions import Session
from borzoi.listeners.binary import Reply
from borzoi.listeners.connection import Conversation
from borzoi.memory.pool import MemoryPool
from borzoi.model.consuming import ConsumerKind, PollingStrategy
from borzoi.model.identifiers import ROOT_USER_ID
from borzoi.model.namespace import Namespace
from borzoi.model.system import TransportKind
from borzoi.partitions.operations import Poll
from borzoi.protocol.commands.system import Ping
from borzoi.protocol.framing import REQUEST_PREFIX, RESPONSE_PREFIX, encode_request
from borzoi.records.batch import verify, walk
from borzoi.records.message import decode_messages

PING = encode_request(Ping())


@dataclass
class Sink:
    """What a listener would do, noted."""

    sent: list[Reply] = field(default_factory=list)
    reading: bool = True
    finished: bool = False

    def send(self, reply: Reply) -> None:
        self.sent.append(reply)

    def finish(self) -> None:
        self.finished = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    @property
    def statuses(self) -> list[int]:
        return [RESPONSE_PREFIX.unpack_from(whole(reply))[0] for reply in self.sent]


def frame(code: int, payload: bytes) -> bytes:
    return REQUEST_PREFIX.pack(len(payload) + 4, code) + payload


async def answered(sink: Sink, count: int) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(sink.sent) < count:
            await asyncio.sleep(0)


def talk_of(
    user_id: int | None, server: EmbeddedServer, sink: Sink, pool: MemoryPool, number: int = 1
) -> Conversation:
    """A conversation of this user; of nobody who is logged in if None."""
    session = Session(number, "127.0.0.1:1", TransportKind.TCP, lambda: None, 0.0, user_id=user_id)
    return Conversation(session, server.binary, sink, pool)


def stranger_talk(server: EmbeddedServer, sink: Sink, pool: MemoryPool) -> Conversation:
    return talk_of(None, server, sink, pool)


def root_talk(
    server: EmbeddedServer, sink: Sink, pool: MemoryPool, number: int = 1
) -> Conversation:
    return talk_of(ROOT_USER_ID, server, sink, pool, number)


def batch_frame(*payloads: bytes) -> memoryview:
    return memoryview(send_frame(*payloads))


def stored(server: EmbeddedServer, start: int = 0) -> list[bytes]:
    """The payloads of all messages; raises when a checksum is wrong."""
    polled = asked(
        server.services.partitions,
        Namespace(0, 0, 0),
        Poll(PollingStrategy.offset(start), 1_000_000, ConsumerKind.CONSUMER, 1),
    )
    found = polled.reading.materialise()
    assert verify(walk(memoryview(found))) is None
    return [bytes(message.payload) for message in decode_messages(found)]
