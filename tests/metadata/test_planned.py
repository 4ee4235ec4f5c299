from borzoi.metadata.machine import Entry, apply
from borzoi.metadata.planned import PlannedPartitions, PlannedStream, PlannedTopic, planned
from borzoi.metadata.state import Metadata
from borzoi.metadata.topics import TopicDefaults, resolved
from borzoi.protocol.commands.partitions import CreatePartitions
from borzoi.protocol.commands.streams import CreateStream, DeleteStream
from borzoi.protocol.commands.topics import CreateTopic, DeleteTopic

DEFAULTS = TopicDefaults(segment_size=512)


def topic(name: str, partitions: int) -> CreateTopic:
    return resolved(CreateTopic("s", name, partitions), DEFAULTS)


def test_what_comes_has_the_number_that_applying_gives_it() -> None:
    state = Metadata()
    assert planned(state, CreateStream("s")) == PlannedStream(0)
    apply(state, Entry(1, 0, CreateStream("gone")))
    apply(state, Entry(1, 0, CreateStream("s")))
    apply(state, Entry(1, 0, DeleteStream("gone")))
    assert planned(state, CreateStream("again")) == PlannedStream(0)
    for name in ("first", "second"):
        target = planned(state, topic(name, 2))
        created = apply(state, Entry(1, 0, topic(name, 2))).created_id
        assert target == PlannedTopic(1, created or 0, 2)
    apply(state, Entry(1, 0, DeleteTopic("s", "first")))
    assert planned(state, topic("third", 1)) == PlannedTopic(1, 0, 1)
    assert planned(state, CreatePartitions("s", "second", 3)) == PlannedPartitions(1, 1, (2, 3, 4))


def test_what_creates_no_files_is_not_announced() -> None:
    assert planned(Metadata(), DeleteStream("s")) is None
