"""A busy published client, what it was promised, and whether a server keeps it."""

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from random import Random
from threading import Thread

from tests.support.server import RunningServer
from tests.support.wire_client import WireClient

from borzoi.model.consuming import Consumer, ConsumerKind, PollingStrategy
from borzoi.protocol.commands.messages import PolledMessages, PollMessages
from borzoi.protocol.commands.streams import GetStream, GetStreams, StreamDetails, Streams
from borzoi.records.message import decode_messages

LOAD = Path(__file__).with_name("server_load.py")

#: How long the client may say nothing at all; a start of the server is part of it.
SILENCE_SECONDS_MAX = 120.0

#: What was promised between two kills: enough lines that every task of the load had its turn.
LINES_MIN, LINES_MAX = 20, 400


@dataclass
class Promised:
    """What the client was promised, in order."""

    #: Partition → the sizes of its acknowledged batches.
    batches: dict[int, list[int]] = field(default_factory=lambda: {0: [], 1: []})
    #: What partition 0 holds, as its reader saw it: the beginnings, by offset.
    read: list[str] = field(default_factory=list)
    #: First and last offset of each poll of partition 1 by the committed offset.
    committed: list[tuple[int, int]] = field(default_factory=list)
    made: int = 0
    repeated: int | None = None
    replaced: int = 0

    def note(self, line: str) -> None:
        match line.split():
            case ["sent", partition, batch, size]:
                sizes = self.batches[int(partition)]
                assert len(sizes) == int(batch)
                sizes.append(int(size))
            case ["read", offset, *texts]:
                assert len(self.read) == int(offset)
                self.read += texts
            case ["next", first, last]:
                self.committed.append((int(first), int(last)))
            case ["made", number]:
                assert self.made == int(number)
                self.made += 1
            case ["done", repeated, replaced]:
                self.repeated, self.replaced = int(repeated), int(replaced)
            case _:
                raise AssertionError(f"the client said {line!r}")

    @property
    def messages(self) -> int:
        return sum(map(sum, self.batches.values()))


class Client:
    """The process of the load, and what it has said so far."""

    def __init__(self, address: tuple[str, int], seed: int) -> None:
        host, port = address
        self.promised = Promised()
        self.process = subprocess.Popen(
            [sys.executable, LOAD, f"{host}:{port}", str(seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._lines: SimpleQueue[str] = SimpleQueue()
        Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def hear(self) -> None:
        """Wait for the next line; a client that says nothing, or ends, has failed."""
        try:
            line = self._lines.get(timeout=SILENCE_SECONDS_MAX)
        except Empty:
            raise AssertionError("the client no longer says anything") from None
        assert line, f"the client ended with {self.process.wait()}"
        self.promised.note(line)

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("stop\n")
        self.process.stdin.flush()
        while self.promised.repeated is None:
            self.hear()
        assert self.process.wait() == 0

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


def work_a_while(client: Client, random: Random) -> None:
    """Wait until the server has answered every task of the load, and a little longer."""
    before = progress(client.promised)
    for _ in range(random.randint(LINES_MIN, LINES_MAX)):
        client.hear()
    patience = time.monotonic() + SILENCE_SECONDS_MAX
    while waiting := stuck(before, progress(client.promised)):
        # The others go on talking, so silence alone would not show it.
        assert time.monotonic() < patience, f"nothing more was heard of {', '.join(waiting)}"
        client.hear()


def progress(promised: Promised) -> dict[str, int]:
    return {
        **{
            f"the sender to partition {number}": len(sent)
            for number, sent in promised.batches.items()
        },
        "the reader": len(promised.read),
        "the maker of streams": promised.made,
    }


def stuck(before: dict[str, int], now: dict[str, int]) -> list[str]:
    return [name for name, count in now.items() if count <= before[name]]


def check(server: RunningServer, promised: Promised) -> int:
    """Compare what the server has with what it promised; how many messages it has."""
    client = WireClient(server.tcp_address)
    client.login()
    found = 0
    for partition, sizes in promised.batches.items():
        texts = list(stored(client, partition))
        found += len(texts)
        check_order(partition, sizes, texts)
        if partition == 0:
            assert texts[: len(promised.read)] == promised.read, "what was read has changed"
    lasts = [last for _, last in promised.committed]
    firsts = [first for first, _ in promised.committed]
    assert all(last < first for last, first in zip(lasts, firsts[1:], strict=False)), (
        "a committed offset was forgotten"
    )

    streams = client.call(GetStreams())
    assert isinstance(streams, Streams)
    names = {stream.name for stream in streams.streams}
    assert names == {"load", *(f"made-{number}" for number in range(promised.made))}
    for name in names - {"load"}:
        stream = client.call(GetStream(name))
        assert isinstance(stream, StreamDetails)
        assert [(topic.name, topic.partitions_count) for topic in stream.topics] == [("inside", 1)]
    client.close()
    return found


def stored(client: WireClient, partition: int) -> Iterator[str]:
    """How each message of the partition begins; the rest of it must be what it announces."""
    offset = 0
    while True:
        polled = client.call(
            PollMessages(
                Consumer(ConsumerKind.CONSUMER, 7),
                "load",
                "events",
                partition,
                PollingStrategy.offset(offset),
                500,
            )
        )
        assert isinstance(polled, PolledMessages)
        messages = decode_messages(polled.messages)
        if not messages:
            assert polled.current_offset == offset - 1
            return
        for message in messages:
            assert message.offset == offset
            offset += 1
            text, _, filling = bytes(message.payload).partition(b" ")
            assert len(message.payload) == int(text.split(b"/")[-1])
            assert not filling.strip(b".")
            yield text.decode()


def check_order(partition: int, sizes: list[int], texts: list[str]) -> None:
    """Batches follow each other in order and whole.

    A batch whose answer was lost was sent again, so it, or the beginning of it that the crash
    left, may stand in the log before its last, whole appearance.
    """
    batch, index = 0, 0
    for offset, text in enumerate(texts):
        where, of_batch, at, size, _ = map(int, text.split("/"))
        assert where == partition
        if (of_batch, at) != (batch, index):
            again = of_batch == batch or (of_batch == batch - 1 and index == 0)
            assert again, f"offset {offset} holds {text}, not index {index} of batch {batch}"
            assert at == 0, f"offset {offset} holds {text}, which begins no batch"
        batch, index = (of_batch, at + 1) if at + 1 < size else (of_batch + 1, 0)
        assert of_batch >= len(sizes) or sizes[of_batch] == size
    assert (batch, index) == (len(sizes), 0), f"{len(sizes)} batches were promised"
