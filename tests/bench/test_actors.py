import time
from typing import Any

import pytest

from borzoi.bench.actors import LoadConnection, Stage, act, prepare
from borzoi.bench.board import RECEIVED, SENT, Board
from borzoi.bench.plan import KIND_BY_NAME, Plan, Span, actors_of
from borzoi.bench.running import make_ready
from borzoi.client.connection_string import parse
from borzoi.model.errors import InvalidCredentials, StreamNotFound

pytestmark = pytest.mark.system
SMALL: dict[str, Any] = {
    "messages_per_batch": Span(5, 5),
    "message_size": Span(8, 8),
    "message_batches": 4,
}


@pytest.fixture
def connection(borzoi):
    connected = LoadConnection(parse("borzoi://iggy:iggy@{}:{}".format(*borzoi.address)))
    yield connected
    connected.close()


def acted(borzoi, connection, plan):
    """Every actor of a plan in turn, on one connection."""
    with borzoi.client() as client:
        make_ready(client, plan)
    actors = actors_of(plan)
    producers = {actor.stream: (actor.number,) for actor in actors if actor.produces}
    board = Board(len(actors))
    stage = Stage(plan, board, time.monotonic_ns(), {"bench-stream-1": 20}, producers)
    recorders = []
    for actor in actors:
        prepare(actor, connection)
        recorders.append(act(actor, connection, stage))
    return board, recorders


def test_a_producer_and_then_its_consumer(borzoi, connection):
    plan = Plan(KIND_BY_NAME["ppc"], 1, 1, 1, **SMALL)
    board, (sent, received) = acted(borzoi, connection, plan)
    assert board.total(SENT, [0]) == board.total(RECEIVED, [1]) == 20
    assert len(sent.rows) == 4
    assert sum(row[2] for row in received.rows) == 20
    assert all(row[1] > 0 for row in sent.rows + received.rows)
    assert board.all_done([0, 1])


def test_a_consumer_reads_what_was_there(borzoi, connection):
    acted(borzoi, connection, Plan(KIND_BY_NAME["pp"], 1, 0, 1, **SMALL))
    _, (received,) = acted(borzoi, connection, Plan(KIND_BY_NAME["pc"], 0, 1, 1, **SMALL))
    assert [row[2] for row in received.rows] == [5, 5, 5, 5]
    assert [row[3] for row in received.rows] == [40, 40, 40, 40]


@pytest.mark.parametrize("groups", [0, 1])
def test_an_actor_that_sends_and_polls(borzoi, connection, groups):
    kind = KIND_BY_NAME["e2ecg" if groups else "e2e"]
    plan = Plan(kind, 1, 1, 1, partitions=1, groups=groups, **SMALL)
    board, (both,) = acted(borzoi, connection, plan)
    assert board.total(SENT, [0]) == 20
    assert sum(row[2] for row in both.rows) == board.total(RECEIVED, [0]) == 20


def test_errors_of_the_server_are_raised(borzoi, connection):
    plan = Plan(KIND_BY_NAME["pp"], 1, 0, 1, **SMALL)
    (actor,) = actors_of(plan)
    with borzoi.client() as client:
        if client.get_stream(actor.stream) is not None:
            client.delete_stream(actor.stream)
    stage = Stage(plan, Board(1), time.monotonic_ns(), {}, {})
    with pytest.raises(StreamNotFound):
        act(actor, connection, stage)
    with pytest.raises(InvalidCredentials):
        LoadConnection(parse("borzoi://iggy:wrong@{}:{}".format(*borzoi.address)))
