import weakref

from tests.support.conversations import PING, Sink, root_talk
from tests.support.embedded import EmbeddedServer

from borzoi.memory.pool import MemoryPool
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.framing import encode_request


async def test_a_lost_conversation_does_not_keep_its_connection_alive(
    server: EmbeddedServer, pool: MemoryPool
) -> None:
    sink = Sink()
    talk = root_talk(server, sink, pool)
    talk.feed(memoryview(encode_request(CreateStream("s")) + PING))
    talk.lost()
    gone = weakref.ref(sink)
    del sink
    assert gone() is None
