"""A run: prepares streams, starts load processes together, collects samples.

Actors are distributed over processes, a few threads in each. All connect and log in first; then the
parent chooses a start time on the monotonic clock, which all processes of a machine share, and
every actor starts at that time.
"""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Final

from borzoi.bench.actors import LoadConnection, Stage, act, prepare
from borzoi.bench.board import Board
from borzoi.bench.plan import TOPIC, Actor, Plan, actors_of, group_name, partitions_of, stream_name
from borzoi.bench.samples import Measured
from borzoi.client import Client
from borzoi.client.options import Options
from borzoi.model.errors import BorzoiError, ServerError, StreamNotFound

#: From the last login to the common start: enough for a message to every process.
LEAD_SECONDS: Final = 0.05
#: How often progress is shown.
PROGRESS_SECONDS: Final = 0.1
#: How long connecting and logging in may take.
READY_SECONDS_MAX: Final = 60.0

Progress = Callable[[Board], None]


def processes_for(plan: Plan, wanted: int | None = None) -> int:
    """Return the number of load processes: by default one per processor, at most one per actor."""
    return max(1, min(plan.actors_count, wanted or len(os.sched_getaffinity(0))))


def run(
    plan: Plan, options: Options, *, processes: int, progress: Progress | None = None
) -> list[Measured]:
    """Run the plan against a server and return the samples of each actor, in order."""
    actors = actors_of(plan)
    with Client(options) as client:
        make_ready(client, plan)
        available = _available(client, plan) if not plan.kind.produces else {}
    board = Board(len(actors))
    shares = [actors[number::processes] for number in range(processes)]
    with _load_processes(shares, plan, options, board, available) as links:
        _await_all(links, READY_SECONDS_MAX, None, board)
        start_ns = time.monotonic_ns() + int(LEAD_SECONDS * 1e9)
        for link in links:
            link.send(start_ns)
        collected = _await_all(links, None, progress, board)
    measured = [one for share in collected for one in share]
    order = {(actor.role, actor.id): actor.number for actor in actors}
    return sorted(measured, key=lambda one: order[one.role, one.id])


def make_ready(client: Client, plan: Plan) -> None:
    """Create the streams, or check that those to be read exist."""
    for number in range(1, plan.streams + 1):
        name = stream_name(number)
        exists = client.get_stream(name) is not None
        if plan.creates_streams:
            if exists:
                client.delete_stream(name)
            client.create_stream(name)
            client.create_topic(
                f"{name}/{TOPIC}",
                partitions=partitions_of(plan),
                message_expiry=plan.message_expiry,
                max_size=plan.max_topic_size,
            )
        elif not exists:
            raise StreamNotFound(
                f"there is no stream {name}; run a producing kind first, such as"
                " `borzoi bench pinned-producer`"
            )
    if plan.kind.balanced and plan.kind.consumes:
        for number in range(1, plan.groups + 1):
            topic = f"{stream_name((number - 1) % plan.streams + 1)}/{TOPIC}"
            if client.get_consumer_group(topic, group_name(number)) is None:
                client.create_consumer_group(topic, group_name(number))


def _available(client: Client, plan: Plan) -> dict[str, int]:
    found = {}
    for number in range(1, plan.streams + 1):
        topic = client.get_topic(f"{stream_name(number)}/{TOPIC}")
        found[stream_name(number)] = 0 if topic is None else topic.messages_count
    return found


@contextmanager
def _load_processes(
    shares: list[list[Actor]],
    plan: Plan,
    options: Options,
    board: Board,
    available: dict[str, int],
) -> Iterator[list[Connection]]:
    context = multiprocessing.get_context("spawn")
    started: list[SpawnProcess] = []
    links: list[Connection] = []
    try:
        for share in shares:
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_work, args=(theirs, share, plan, options, board, available), daemon=True
            )
            process.start()
            theirs.close()
            started.append(process)
            links.append(ours)
        yield links
    finally:
        board.interrupt()
        for process in started:
            process.join(5)
            if process.is_alive():
                process.kill()
        for link in links:
            link.close()


def _await_all(
    links: list[Connection], seconds: float | None, progress: Progress | None, board: Board
) -> list[Any]:
    """Return one answer of every process. A fault in any of them ends the run."""
    answers: dict[Connection, Any] = {}
    deadline = None if seconds is None else time.monotonic() + seconds
    while len(answers) < len(links):
        for link in wait([one for one in links if one not in answers], PROGRESS_SECONDS):
            assert isinstance(link, Connection)
            try:
                answer = link.recv()
            except EOFError:
                raise ServerError(0, "a load process ended without a report") from None
            if isinstance(answer, BorzoiError):
                raise answer
            answers[link] = answer
        if progress is not None:
            progress(board)
        if deadline is not None and time.monotonic() > deadline:
            raise ServerError(0, f"the load processes were not ready within {seconds} s")
    return [answers[link] for link in links]


def _work(
    link: Connection,
    actors: list[Actor],
    plan: Plan,
    options: Options,
    board: Board,
    available: dict[str, int],
) -> None:
    """The main function of a load process."""
    # Ctrl-C reaches the whole process group; the parent decides, and signals it on the board.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connections: list[LoadConnection] = []
    try:
        for actor in actors:
            connection = LoadConnection(options)
            connections.append(connection)
            prepare(actor, connection)
        link.send("ready")
        stage = Stage(plan, board, link.recv(), available, _producers(plan))
        link.send(_acted(actors, connections, stage))
    except BorzoiError as fault:
        board.interrupt()
        link.send(fault)
    except EOFError:
        pass  # the parent has died
    finally:
        for connection in connections:
            connection.close()


def _producers(plan: Plan) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for actor in actors_of(plan):
        if actor.produces:
            found[actor.stream] = (*found.get(actor.stream, ()), actor.number)
    return found


def _acted(actors: list[Actor], connections: list[LoadConnection], stage: Stage) -> list[Measured]:
    """Run the actors concurrently; raises the first fault of any."""
    results: dict[int, Measured] = {}
    faults: list[BorzoiError] = []

    def one(actor: Actor, connection: LoadConnection) -> None:
        try:
            recorder = act(actor, connection, stage)
        except BorzoiError as fault:
            faults.append(fault)
            stage.board.interrupt()
            return
        results[actor.number] = Measured(actor.role, actor.id, recorder.columns())

    if len(actors) == 1:
        one(actors[0], connections[0])
    else:
        threads = [
            threading.Thread(target=one, args=pair)
            for pair in zip(actors, connections, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if faults:
        raise faults[0]
    return [results[actor.number] for actor in actors]
