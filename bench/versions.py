"""This version's server compared with another version's, in turns, with the same load.

The other version is named by the Python of its environment, for example that of a checkout of an
older commit: ``python -m bench.versions ../older/.venv/bin/python``. A row is lost when it falls
below 0.97 of what the other version reaches. Single rounds of the same code differ by up to 0.05:
there are more of them than elsewhere. How fast a poll is depends on where in memory the pages of
the files happen to lie, so polls are repeated with other files.
"""

import sys
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

from tests.support.server import RunningServer, running_server

from bench.comparing import MIB, Row
from bench.load import poll_frame, poll_over_and_over, send_frame, send_on_all, send_over_and_over
from bench.server import resident_bytes, together
from bench.sides import logged_in, prepared

ROUNDS = 11
#: Pairs of servers that are polled, each with its own files.
PLACES = 3
#: What no row may fall below.
GOAL = 0.97

#: The other version first, as in every row.
Pair = tuple[RunningServer, RunningServer]


def both(stack: ExitStack, python: str, settings: dict[str, str]) -> Pair:
    theirs = stack.enter_context(running_server(settings, python=python))
    return theirs, stack.enter_context(running_server(settings))


def sends(servers: Pair) -> list[Row]:
    theirs, ours = [prepared(server) for server in servers]
    all_theirs, all_ours = ([logged_in(server) for _ in range(32)] for server in servers)
    frames = [send_frame(1000, 1000, partition_id=number) for number in range(4)]
    found = []
    for name, frame, requests in (
        ("1000 × 1000 B", frames[0], 30),
        ("1000 × 100 B", send_frame(1000, 100), 100),
        ("1 × 1000 B", send_frame(1, 1000), 1000),
    ):
        work = partial(send_over_and_over, frame=frame, requests=requests)
        size = requests * len(frame)
        found.append(
            Row(
                f"send {name}, 1 connection",
                GOAL,
                partial(work, theirs),
                partial(work, ours),
                written_bytes=size,
            )
        )
    found.append(
        Row(
            "send 1000 × 1000 B, 4 connections",
            GOAL,
            partial(together, all_theirs[:4], frames, 10),
            partial(together, all_ours[:4], frames, 10),
            written_bytes=40 * len(frames[0]),
        )
    )
    small = send_frame(1, 200)
    found.append(
        Row(
            "send 1 × 200 B, 32 connections",
            GOAL,
            partial(send_on_all, all_theirs, small, 64),
            partial(send_on_all, all_ours, small, 64),
        )
    )
    return found


def polls(servers: Pair, name: str) -> Row:
    theirs, ours = [prepared(server) for server in servers]
    for sock in (theirs, ours):
        send_over_and_over(sock, send_frame(1000, 1000), 100)
    work = partial(
        poll_over_and_over,
        frames=[poll_frame(number * 1000, 1000) for number in range(100)],
        requests=100,
    )
    return Row(f"poll 1000 × 1000 B, {name}", GOAL, partial(work, theirs), partial(work, ours))


def group_commit(servers: Pair) -> Row:
    turns = []
    for server in servers:
        prepared(server)
        many = [logged_in(server) for _ in range(32)]
        turns.append(partial(send_on_all, many, send_frame(4, 960), 10))
    theirs, ours = turns
    return Row("synced, 4 KiB, 32 connections", GOAL, theirs, ours)


def starts(python: str) -> list[bool]:
    """How soon each version is ready, and its memory when idle."""
    seconds: dict[str, list[float]] = {python: [], sys.executable: []}
    resident: dict[str, list[float]] = {python: [], sys.executable: []}
    for _ in range(ROUNDS):
        for each in seconds:
            begun = time.perf_counter()
            with running_server(python=each) as server:
                seconds[each].append(time.perf_counter() - begun)
                resident[each].append(resident_bytes(server) / MIB)
    results = []
    for name, unit, found in (("ready after", "s", seconds), ("idle", "MiB", resident)):
        theirs, ours = median(found[python]), median(found[sys.executable])
        results.append(theirs / ours >= GOAL)
        print(
            f"| {name} | {theirs:.3f} {unit} | {ours:.3f} {unit} | {theirs / ours:.2f}"
            f" | ≥ {GOAL} | {'ok' if results[-1] else 'MISSED'} |"
        )
    return results


def merged(rows: list[Row]) -> list[Row]:
    """One row of each name, with the rounds of all."""
    found: dict[str, Row] = {}
    for row in rows:
        first = found.setdefault(row.name, row)
        if first is not row:
            first.bare_rounds += row.bare_rounds
            first.own_rounds += row.own_rounds
    return list(found.values())


def main(python: str) -> int:
    print("| workload | other version | this one | ratio | goal | |")
    print("|---|---|---|---|---|---|")
    with ExitStack() as stack:
        start = partial(both, stack, python)
        rows = [
            *sends(start({})),
            group_commit(start({"SYSTEM_PARTITION_ACKNOWLEDGE": "synced"})),
        ]
        for _ in range(PLACES):
            rows.append(polls(start({}), "open segment"))
            rows.append(polls(start({"SYSTEM_SEGMENT_SIZE": "16 MiB"}), "sealed segments"))
        for _ in range(ROUNDS):
            for row in rows:
                row.take_round()
        results = [row.told() for row in merged(rows)]
    return 0 if all(results + starts(python)) else 1


if __name__ == "__main__":
    # Servers run in folders of their own, where a relative path would lead elsewhere.
    sys.exit(main(str(Path(sys.argv[1]).absolute())))
