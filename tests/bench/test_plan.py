import pytest
from msgspec.structs import replace

from borzoi.bench.plan import (
    KIND_BY_NAME,
    KINDS,
    Plan,
    Role,
    Span,
    actors_of,
    batches_for,
    check,
    filling,
    frame_bytes,
    partitions_of,
    span_of,
    volume_bytes,
)
from borzoi.model.errors import InvalidConfiguration


def plan(alias: str, **changes: object) -> Plan:
    kind = KIND_BY_NAME[alias]
    usual = Plan(
        kind,
        producers=4 if kind.produces else 0,
        consumers=4 if kind.consumes else 0,
        streams=kind.streams or 4,
        partitions=kind.partitions,
        groups=1 if kind.balanced and kind.consumes else 0,
    )
    if kind.alternates:
        usual = replace(usual, streams=min(usual.streams, 4))
    return replace(usual, **changes)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.alias)
def test_every_kind_has_a_plan_that_runs(kind):
    usual = plan(kind.alias)
    check(usual)
    actors = actors_of(usual)
    assert [actor.number for actor in actors] == list(range(usual.actors_count))
    assert any(actor.produces for actor in actors) == kind.produces
    assert any(actor.consumes for actor in actors) == kind.consumes


def test_pinned_actors_have_a_stream_of_their_own():
    actors = actors_of(plan("pp"))
    assert [actor.stream for actor in actors] == [f"bench-stream-{n}" for n in range(1, 5)]
    assert {actor.partition for actor in actors} == {0}


def test_a_balanced_producer_names_no_partition():
    assert {actor.partition for actor in actors_of(plan("bp"))} == {None}


def test_members_know_their_group():
    actors = actors_of(plan("bcg", groups=2, consumers=5))
    assert [actor.group for actor in actors] == ["cg-1", "cg-2", "cg-1", "cg-2", "cg-1"]
    assert actors[0].members == (0, 2, 4)
    assert actors[1].members == (1, 3)


def test_alternating_actors_that_share_a_stream_have_a_partition_each():
    shared = plan("e2e", streams=2)
    assert partitions_of(shared) == 2
    places = {(actor.stream, actor.partition) for actor in actors_of(shared)}
    assert len(places) == 4
    assert {actor.role for actor in actors_of(shared)} == {Role.PRODUCING_CONSUMER}


def test_in_a_group_run_the_surplus_only_sends_or_only_polls():
    actors = actors_of(plan("e2ecg", producers=1, consumers=3))
    assert [actor.produces for actor in actors] == [True, False, False]
    assert all(actor.consumes and actor.group for actor in actors)


def test_the_rate_is_shared_evenly_and_readers_may_catch_up():
    actors = actors_of(plan("ppc", rate_limit=8_000))
    assert {actor.rate for actor in actors if actor.produces} == {1_000.0}
    assert {actor.rate for actor in actors if actor.consumes} == {1_050.0}


def test_total_data_becomes_batches():
    assert batches_for(40_000_000, plan("pp")) == 10
    assert batches_for(1, plan("pp")) == 1


def test_volumes():
    assert volume_bytes(plan("pp", message_batches=2)) == 8_000_000
    assert frame_bytes(plan("pp")) == 1_080_000


@pytest.mark.parametrize(
    ("alias", "changes", "said"),
    [
        ("pp", {"streams": 3}, "as many streams as actors"),
        ("pp", {"producers": 0, "streams": 0}, "0 actors"),
        ("pp", {"producers": 2000}, "2000 actors"),
        ("pp", {"message_batches": 0}, "--message-batches is 0"),
        ("pp", {"rate_limit": -1}, "--rate-limit is -1"),
        ("ppc", {"partitions": 2}, "1 partition a stream"),
        ("bcg", {"groups": 0}, "consumer group for each stream"),
        ("bpcg", {"partitions": 3}, "partition for each consumer"),
        ("e2e", {"streams": 9}, "9 streams for 4 actors"),
    ],
)
def test_a_plan_that_cannot_run_says_why(alias, changes, said):
    with pytest.raises(InvalidConfiguration, match=said):
        check(plan(alias, **changes))


def test_numbers_and_ranges():
    assert span_of("7", "x") == Span(7, 7)
    assert str(span_of("200..2000", "x")) == "200..2000"
    assert span_of("1..3", "x").mean == 2
    for wrong in ("", "0", "9..1", "a..b", "1..", "-3", str(2**40)):
        with pytest.raises(InvalidConfiguration, match="x is"):
            span_of(wrong, "x")


@pytest.mark.parametrize(("alias", "kind"), [("pc", "pp"), ("bcg", "bp")])
def test_what_consumers_read_is_written_first(alias: str, kind: str) -> None:
    consuming = plan(alias, rate_limit=5, message_batches=7)
    written = filling(consuming)
    check(written)
    assert (written.kind.alias, written.rate_limit, written.consumers) == (kind, 0, 0)
    assert written.creates_streams
    assert (written.streams, partitions_of(written)) == (
        consuming.streams,
        partitions_of(consuming),
    )
    assert written.producers * written.messages_per_actor >= (
        consuming.consumers * consuming.messages_per_actor
    )
