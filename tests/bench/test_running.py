from typing import Any

import pytest

from borzoi.bench.board import Board
from borzoi.bench.plan import KIND_BY_NAME, TOPIC, Plan, Role, Span, stream_name
from borzoi.bench.running import make_ready, processes_for, run
from borzoi.client.connection_string import parse
from borzoi.model.errors import InvalidCredentials, StreamNotFound

SMALL: dict[str, Any] = {
    "messages_per_batch": Span(10, 10),
    "message_size": Span(20, 20),
    "message_batches": 3,
}


def plan(kind, producers, consumers, **more):
    return Plan(KIND_BY_NAME[kind], producers, consumers, producers or consumers, **SMALL, **more)


def test_never_more_processes_than_actors():
    assert processes_for(plan("pp", 1, 0), 8) == 1
    assert processes_for(plan("pp", 4, 0), 3) == 3
    assert processes_for(plan("pp", 4, 0)) >= 1


@pytest.fixture
def options(borzoi):
    return parse("borzoi://iggy:iggy@{}:{}".format(*borzoi.address))


@pytest.mark.system
def test_what_is_sent_is_read_by_several_processes(borzoi, options):
    seen: list[Board] = []
    produced = run(plan("pp", 2, 0), options, processes=2, progress=seen.append)
    assert [(one.role, one.id) for one in produced] == [(Role.PRODUCER, 1), (Role.PRODUCER, 2)]
    assert [one.samples["messages"].sum() for one in produced] == [30, 30]
    with borzoi.client() as client:
        assert client.get_topic((stream_name(1), TOPIC)).messages_count == 30
    consumed = run(plan("pc", 0, 2), options, processes=1)
    assert [one.samples["payload_bytes"].sum() for one in consumed] == [600, 600]
    assert seen


@pytest.mark.system
def test_a_warm_up_is_not_measured(options):
    (measured,) = run(plan("pp", 1, 0, warmup_seconds=0.1), options, processes=1)
    assert measured.samples["messages"].sum() == 30


@pytest.mark.system
def test_a_rate_is_kept(options):
    limited = plan("pp", 1, 0, rate_limit=2000)
    (measured,) = run(limited, options, processes=1)
    # Three batches of 200 bytes at 2000 bytes a second.
    assert measured.samples["elapsed_ns"][-1] >= 0.2e9


@pytest.mark.system
def test_streams_that_are_to_be_read_must_be_there(borzoi, options):
    with borzoi.client() as client:
        with pytest.raises(StreamNotFound, match="run a producing kind first"):
            make_ready(client, plan("pc", 0, 40))


@pytest.mark.system
def test_a_fault_of_a_load_process_ends_the_run(borzoi):
    options = parse("borzoi://iggy:wrong@{}:{}".format(*borzoi.address))
    with pytest.raises(InvalidCredentials):
        run(plan("pp", 1, 0), options, processes=1)
