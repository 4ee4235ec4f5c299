"""A listener that notes what a conversation asks of it, and frames to feed it."""

import asyncio
from dataclasses import dataclass, field

from tests.support.embedded import whole
from tests.support.listening import PATIENCE_SECONDS

from borzoi.listeners.binary import Reply
from borzoi.protocol.commands.system import Ping
from borzoi.protocol.framing import REQUEST_PREFIX, RESPONSE_PREFIX, encode_request

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
