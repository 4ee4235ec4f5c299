"""The command line: how soon it answers, and how fast `read`, `load` and `bench` are.

`read` and `load` are compared with the client's own loop over the same messages, through the same
server, in a process of its own as well. `borzoi bench` is compared with a raw socket loop.

    python -m bench cli
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support.server import RunningServer, directory_in_memory, running_server

from bench.load import connected, send_frame, send_over_and_over
from borzoi.client import Client
from borzoi.protocol.commands.users import LoginUser
from borzoi.protocol.framing import encode_request

HELP_SECONDS_MAX = 0.150
PING_SECONDS_MAX = 0.250
TRANSFER_RATIO_MIN = 0.5
BENCH_RATIO_MIN = 0.85
MEMORY_MB_MAX = 150
ROUNDS = 3
BATCHES = 1000
MESSAGES = 1000
SIZE = 1000

#: Polls everything and looks at every payload; then sends as much. Prints the seconds of each.
CLIENT_LOOP = f"""
import sys, time
from borzoi.client import Client

with Client(sys.argv[1]) as client:
    begun, total = time.perf_counter(), 0
    for number in range({BATCHES}):
        for message in client.poll_messages(
            "bench/stored", partition=0, start=number * {MESSAGES}, count={MESSAGES}
        ):
            total += len(message.payload)
    print(time.perf_counter() - begun)
    payloads = [b"x" * {SIZE}] * {MESSAGES}
    begun = time.perf_counter()
    for _ in range({BATCHES}):
        client.send_messages("bench/loaded", payloads, partition=0)
    print(time.perf_counter() - begun)
"""


class Shown:
    """Prints rows; remembers whether all goals were reached."""

    def __init__(self) -> None:
        self.missed = False
        print("| what | measured | goal | |")
        print("|---|---|---|---|")

    def row(self, what: str, measured: float, goal: float, unit: str, *, at_most: bool) -> None:
        reached = measured <= goal if at_most else measured >= goal
        self.missed |= not reached
        sign, verdict = ("≤" if at_most else "≥"), ("ok" if reached else "MISSED")
        print(f"| {what} | {measured:.2f}{unit} | {sign} {goal:g}{unit} | {verdict} |", flush=True)


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "borzoi", *map(str, arguments)]


def best_seconds(*arguments: object) -> float:
    """The quickest of several calls: what the command itself takes."""
    seconds = []
    for _ in range(5):
        begun = time.perf_counter()
        subprocess.run(command(*arguments), check=True, stdout=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - begun)
    return min(seconds)


def timed(arguments: list[str]) -> tuple[float, float]:
    """Seconds and the most memory in MB that a program took."""
    begun = time.perf_counter()
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, arguments
    process.returncode = 0
    return time.perf_counter() - begun, usage.ru_maxrss / 1e3


def transfers(server: RunningServer, url: str, shown: Shown) -> None:
    """`read` and `load` of a gigabyte compared with loops over the client."""
    with Client(url) as client:
        for name in ("stored", "loaded"):
            client.ensure_topic(f"bench/{name}")
        text = b'{"text": "' + b"x" * (SIZE - 12) + b'"}'
        for _ in range(BATCHES):
            client.send_messages("bench/stored", [text] * MESSAGES, partition=0)
    start = best_seconds("--server", url, "ping")
    with tempfile.TemporaryDirectory(dir=server.directory.parent) as folder:
        for form in ("jsonl", "arrow", "parquet"):
            path = Path(folder) / f"rows.{form}"
            ratios, memory = [], 0.0
            for _ in range(ROUNDS):
                polled, _ = own_rates(url)
                seconds, used = timed(command("--server", url, "read", "bench/stored", path))
                ratios.append(polled / (seconds - start))
                memory = max(memory, used)
            report(shown, f"read {form}", ratios, memory)
        Path(folder, "rows.arrow").unlink()
        for form in ("jsonl", "parquet"):
            path = Path(folder) / f"rows.{form}"
            ratios, memory = [], 0.0
            for _ in range(ROUNDS):
                _, sent = own_rates(url)
                load = ("load", path, "bench/loaded", "--payload", "payload")
                seconds, used = timed(command("--server", url, *load))
                ratios.append(sent / (seconds - start))
                memory = max(memory, used)
            report(shown, f"load {form}", ratios, memory)


def own_rates(url: str) -> tuple[float, float]:
    """Seconds of the client for all polls and for all sends; the topic is empty afterwards."""
    with Client(url) as client:
        client.purge_topic("bench/loaded")
    said = subprocess.run(
        [sys.executable, "-c", CLIENT_LOOP, url], check=True, capture_output=True, text=True
    )
    with Client(url) as client:
        client.purge_topic("bench/loaded")
    polled, sent = map(float, said.stdout.split())
    return polled, sent


def report(shown: Shown, what: str, ratios: list[float], memory: float) -> None:
    shown.row(f"{what}, of the client", max(ratios), TRANSFER_RATIO_MIN, "", at_most=False)
    shown.row(f"{what}, memory", memory, MEMORY_MB_MAX, " MB", at_most=True)


def load_generator(server: RunningServer, shown: Shown) -> None:
    """`borzoi bench` with one process compared with a raw loop, in turns."""
    where = ("tcp", "--server-address", "{}:{}".format(*server.tcp_address))
    generated, raw = [], []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            plan = ("-b", BATCHES, "--processes", 1, "pp", "-p", 1, *where, "output", "-o", folder)
            subprocess.run(command("bench", *plan), check=True, capture_output=True)
            (path,) = Path(folder).glob("*/report.json")
            summary = json.loads(path.read_text())["individual_metrics"][0]["summary"]
        generated.append(summary["total_message_batches"] / summary["total_time_secs"])
        with Client("borzoi://iggy:iggy@{}:{}".format(*server.tcp_address)) as client:
            client.delete_stream("bench-stream-1")
            client.purge_topic("first/topic")
        with connected(server.tcp_address) as sock:
            sock.sendall(encode_request(LoginUser("iggy", "iggy")))
            sock.recv(1024)
            raw.append(send_over_and_over(sock, send_frame(MESSAGES, SIZE), BATCHES).rate)
    ratio = max(generated) / max(raw)
    shown.row("bench, of a raw loop", ratio, BENCH_RATIO_MIN, "", at_most=False)


def main() -> int:
    shown = Shown()
    shown.row("--help", best_seconds("--help"), HELP_SECONDS_MAX, " s", at_most=True)
    with directory_in_memory() as directory, running_server(directory=directory) as server:
        url = "borzoi://iggy:iggy@{}:{}".format(*server.tcp_address)
        ping = best_seconds("--server", url, "ping")
        shown.row("ping", ping, PING_SECONDS_MAX, " s", at_most=True)
        with Client(url) as client:
            client.ensure_topic("first/topic")
        load_generator(server, shown)
        transfers(server, url, shown)
    return int(shown.missed)


if __name__ == "__main__":
    sys.exit(main())
