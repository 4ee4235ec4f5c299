"""Topics as tasks see them: what is marked, and what a later attempt concludes."""

from tests.spark.test_sink import attempt, commit, rows, send, stored

from borzoi.spark.broker import Broker
from borzoi.spark.targets import Attempt, Written, ends_of, last_marker, present_ids


def test_an_epoch_that_is_committed_is_not_sent_again(
    servers: str, broker: Broker, topic: str
) -> None:
    """The marker was written, and Spark died before its own checkpoint said so."""
    commit(servers, topic, 0, send(broker, topic, attempt(0), rows(0, 50)))
    again = send(broker, topic, attempt(0, run="run-2"), rows(0, 50))
    assert again.was_committed
    commit(servers, topic, 0, again)
    assert len(stored(broker, topic, 0)) == 50
    found = last_marker(broker, "query", topic)
    assert found is not None
    assert (found.epoch, found.run, found.ends[0]) == (0, "run-1", 50)


def test_markers_are_found_behind_those_of_other_queries(
    servers: str, broker: Broker, topic: str
) -> None:
    commit(servers, topic, 7, send(broker, topic, attempt(7), rows(0, 5)))
    for epoch in range(150):
        other = Written(Attempt("other", "r", epoch, 0, 0), (topic,), 0, 0)
        commit(servers, topic, epoch, other)
    found = last_marker(broker, "query", topic)
    assert found is not None
    assert found.epoch == 7


def test_ids_behind_the_ends_are_found(broker: Broker, topic: str) -> None:
    send(broker, topic, attempt(0), rows(0, 10, 0), rows(0, 5, 1))
    assert ends_of(broker, topic) == {0: 10, 1: 5, 2: 0}
    assert len(present_ids(broker, topic, {0: 7, 1: 5})) == 3
    assert len(present_ids(broker, topic, {})) == 15
