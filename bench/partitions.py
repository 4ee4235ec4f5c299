"""A server with ten thousand partitions: how long it takes to create, restart and stop them, and
how much memory they need.

    python -m bench partitions [PARTITIONS]

The server runs with `ulimit -n 1024`, as many systems start processes, so nine of ten partitions
have no open file at any time. Times are by the clock, of one run, on the disk of the machine.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.server import RunningServer, running_server
from tests.support.wire_client import WireClient

from borzoi.model.consuming import Consumer, ConsumerKind, PollingStrategy
from borzoi.model.limits import PARTITIONS_PER_REQUEST_MAX
from borzoi.model.partitioning import Partitioning
from borzoi.protocol.commands.messages import PollMessages, SendMessages
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic
from borzoi.protocol.framing import encode_request
from borzoi.records.message import Message, encode_messages

PARTITIONS = 10_000
DESCRIPTORS = 1024
#: Of ten partitions nine get a message.
WRITTEN_SHARE = 0.9
RESTART_SECONDS_MAX = 5.0
STOP_SECONDS_MAX = 10.0
RESIDENT_KIB_MAX = 60 * 1024
RESIDENT_KIB_EACH_MAX = 6
#: Requests that are under way at once.
PIPELINED = 100

BATCH = encode_messages([Message(bytes(200))])


def main() -> bool:
    numbers = [int(word) for word in sys.argv[1:] if word.isdecimal()]
    count = numbers[0] if numbers else PARTITIONS
    with running_server(descriptors=DESCRIPTORS) as server:
        print(f"{count:,} partitions, ulimit -n {DESCRIPTORS}\n")
        print("| | measured | goal | |\n|---|---|---|---|")
        return not all(list(_rows(server, count)))


def _rows(server: RunningServer, count: int) -> list[bool]:
    resident_max = RESIDENT_KIB_MAX + count * RESIDENT_KIB_EACH_MAX
    each = PARTITIONS_PER_REQUEST_MAX
    sizes = [min(each, count - first) for first in range(0, count, each)]
    written = int(count * WRITTEN_SHARE)

    _show("resident when empty", f"{resident_kib(server) / 1024:.0f} MiB")
    seconds = timed(lambda: create(server, sizes))
    _show("create all", f"{seconds:.1f} s, {seconds / count * 1e3:.2f} ms each")
    rows = [_resident(server, "resident, created", resident_max)]
    rows.append(_limited("stop, nothing written", timed(server.stop), STOP_SECONDS_MAX))
    rows.append(_limited("restart, nothing written", timed(server.start), RESTART_SECONDS_MAX))
    seconds = timed(lambda: send_to(server, written))
    _show(f"send to {written:,}", f"{seconds:.1f} s, {seconds / written * 1e6:.0f} µs each")
    rows.append(_resident(server, "resident, written", resident_max))
    rows.append(_limited(f"stop with {written:,} written", timed(server.stop), STOP_SECONDS_MAX))
    rows.append(_limited("restart", timed(server.start), RESTART_SECONDS_MAX))
    rows.append(_resident(server, "resident, restarted", resident_max))
    seconds = timed(lambda: poll_from(server, written))
    _show(f"poll from {written:,}", f"{seconds:.1f} s, {seconds / written * 1e6:.0f} µs each")
    rows.append(_resident(server, "resident, polled", resident_max))
    descriptors = list(Path(f"/proc/{server.process.pid}/fd").iterdir())
    _show("descriptors at the end", str(len(descriptors)))
    server.kill()
    rows.append(True)
    _show("restart after kill -9", f"{timed(server.start):.1f} s")
    return rows


def create(server: RunningServer, sizes: list[int]) -> None:
    with WireClient(server.tcp_address) as client:
        client.login()
        client.call(CreateStream("s"))
        for number, size in enumerate(sizes):
            client.call(CreateTopic("s", f"t{number}", size))


def send_to(server: RunningServer, count: int) -> None:
    indexes, messages = (memoryview(part) for part in BATCH)
    _pipelined(
        server,
        [
            encode_request(
                SendMessages(
                    "s", f"t{topic}", Partitioning.partition(partition), 1, indexes, messages
                )
            )
            for topic, partition in _places(count)
        ],
    )


def poll_from(server: RunningServer, count: int) -> None:
    reader = Consumer(ConsumerKind.CONSUMER, 1)
    _pipelined(
        server,
        [
            encode_request(
                PollMessages(
                    reader, "s", f"t{topic}", partition, PollingStrategy.offset(0), 1, False
                )
            )
            for topic, partition in _places(count)
        ],
    )


def _places(count: int) -> list[tuple[int, int]]:
    return [divmod(number, PARTITIONS_PER_REQUEST_MAX) for number in range(count)]


def _pipelined(server: RunningServer, frames: list[bytes]) -> None:
    with WireClient(server.tcp_address) as client:
        client.login()
        for first in range(0, len(frames), PIPELINED):
            some = frames[first : first + PIPELINED]
            client.send(b"".join(some))
            for _ in some:
                status, _ = client.receive()
                assert status == 0, status


def timed(action: Callable[[], object]) -> float:
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


def resident_kib(server: RunningServer) -> int:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))


def _resident(server: RunningServer, name: str, limit: int) -> bool:
    kib = resident_kib(server)
    return _show(name, f"{kib / 1024:.0f} MiB", f"≤ {limit / 1024:.0f} MiB", kib <= limit)


def _limited(name: str, seconds: float, limit: float) -> bool:
    return _show(name, f"{seconds:.1f} s", f"≤ {limit:.0f} s", seconds <= limit)


def _show(name: str, measured: str, goal: str = "", ok: bool | None = None) -> bool:
    outcome = "" if ok is None else "ok" if ok else "MISSED"
    print(f"| {name} | {measured} | {goal} | {outcome} |", flush=True)
    return ok is not False


if __name__ == "__main__":
    sys.exit(main())
