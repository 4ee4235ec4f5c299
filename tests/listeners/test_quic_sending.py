"""Answers in slices, as much as there is room for."""

from pathlib import Path

from tests.support.lenient import LenientMedium

from borzoi.listeners.binary import RangesReply
from borzoi.listeners.quic_sending import QUEUED_BYTES_MAX, Sending
from borzoi.storage.reading import SLICE_BYTES, FileRange, FileSlices


class Core:
    """What the library does with what it is given."""

    def __init__(self) -> None:
        self.queued = 0
        self.streams: dict[int, bytes] = {}
        self.ended: list[int] = []
        self.reset: set[int] = set()

    def get_send_buffer_size(self) -> int:
        return self.queued

    def send_stream_data(self, number: int, data: bytes, end_stream: bool = False) -> None:
        if number in self.reset:
            raise ValueError("cannot write after RESET_STREAM")
        self.queued += len(data)
        self.streams[number] = self.streams.get(number, b"") + data
        if end_stream:
            self.ended.append(number)


def long_reply(tmp_path: Path) -> tuple[RangesReply, bytes]:
    content = bytes(range(256)) * (3 * SLICE_BYTES // 256)
    path = tmp_path / "stored"
    path.write_bytes(content)
    part = FileRange(LenientMedium().open(path, writable=False), 0, len(content))
    reply = RangesReply(b"head", [part], [memoryview(b"view"), FileSlices(part)])
    return reply, b"head" + content + b"view" + content


def test_a_short_answer_leaves_at_once() -> None:
    core = Core()
    sending = Sending(core)  # type: ignore[arg-type]
    sending.add(4, b"answer")
    assert (core.streams, core.ended) == ({4: b"answer"}, [4])
    assert not sending.is_due
    assert not sending.is_done
    core.queued = 0
    assert sending.is_done


def test_a_long_answer_is_read_as_it_is_taken(tmp_path: Path) -> None:
    core = Core()
    sending = Sending(core)  # type: ignore[arg-type]
    reply, wanted = long_reply(tmp_path)
    sending.add(0, reply)
    most = 0
    while not sending.is_done:
        while sending.is_due:
            sending.go_on()
        most = max(most, core.queued)
        core.queued = 0
    assert core.streams[0] == wanted
    assert core.ended == [0]
    assert most <= QUEUED_BYTES_MAX + SLICE_BYTES


def test_streams_take_turns(tmp_path: Path) -> None:
    core = Core()
    sending = Sending(core)  # type: ignore[arg-type]
    for number in (0, 4):
        sending.add(number, long_reply(tmp_path)[0])
    for _ in range(6):
        sending.go_on()
    assert len(core.streams[0]) == len(core.streams[4])


def test_what_nobody_wants_is_not_read(tmp_path: Path) -> None:
    core = Core()
    sending = Sending(core)  # type: ignore[arg-type]
    for number in (0, 4, 8):
        sending.add(number, long_reply(tmp_path)[0])
    sending.forget(4)
    core.reset.add(0)
    sending.go_on()
    assert core.streams == {}
    sending.go_on()
    assert list(core.streams) == [8]
    sending.clear()
    core.queued = 0
    assert sending.is_done
