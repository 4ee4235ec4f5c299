"""What every `PartitionStore` must do. Each check gets a function that opens the store, again and
again over the same place; it closes what it opens.

Run `CHECKS` against a new implementation: `tests/shard/test_partition_store.py` shows how.
"""

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from tests.support.logs import batch_of

from borzoi.model.consuming import ConsumerKind, PollingStrategy
from borzoi.model.namespace import Namespace
from borzoi.partitions.partition import Partition
from borzoi.partitions.polling import Polled
from borzoi.shard.partition_store import PartitionStore, Place

OpenStore: TypeAlias = Callable[[], PartitionStore]
Check: TypeAlias = Callable[[OpenStore], Awaitable[None]]

GROUP: Final = ConsumerKind.GROUP
#: Two partitions of one topic, one of another topic, one of a stream whose number begins alike.
PLACES: Final = (
    Namespace(1, 1, 0),
    Namespace(1, 1, 1),
    Namespace(1, 12, 0),
    Namespace(11, 1, 0),
)


def fill(store: PartitionStore, *namespaces: Namespace) -> None:
    """One message and one stored offset in each."""
    for namespace in namespaces:
        store.make((namespace.stream_id, namespace.topic_id))
        partition = store.open(namespace)
        partition.append(batch_of([b"%d.%d.%d" % namespace]), now=1)
        partition.store_offset(GROUP, 7, partition.current_offset)
        partition.close()


def found(store: PartitionStore, *namespaces: Namespace) -> list[int]:
    """How many messages each of the partitions has."""
    counts = []
    for namespace in namespaces:
        partition = store.open(namespace)
        counts.append(partition.statistics.messages_count)
        partition.close()
    return counts


async def what_was_stored_is_found_again(open_store: OpenStore) -> None:
    store = open_store()
    assert found(store, PLACES[0]) == [0], "an unknown partition is empty"
    fill(store, PLACES[0])
    store.close()
    store = open_store()
    partition = store.open(PLACES[0])
    assert partition.namespace == PLACES[0]
    polled = partition.poll(PollingStrategy.first(), 9, kind=GROUP, consumer_id=1)
    found_again = polled if isinstance(polled, Polled) else await polled
    assert found_again.reading.materialise().endswith(b"1.1.0")
    assert partition.load_offset(GROUP, 7) == 0
    partition.close()
    store.close()


async def a_partition_is_dropped_alone(open_store: OpenStore) -> None:
    await _dropped(open_store, PLACES[0], [0, 1, 1, 1])


async def a_topic_is_dropped_with_its_partitions(open_store: OpenStore) -> None:
    await _dropped(open_store, (1, 1), [0, 0, 1, 1])


async def a_stream_is_dropped_with_its_topics(open_store: OpenStore) -> None:
    await _dropped(open_store, (1,), [0, 0, 0, 1])


async def _dropped(open_store: OpenStore, place: Place, left: list[int]) -> None:
    store = open_store()
    fill(store, *PLACES)
    await store.drop(place)
    await store.drop(place)
    await store.sync()
    store.close()
    # Neither at once nor after a start does anything come back, offsets included.
    store = open_store()
    assert found(store, *PLACES) == left
    for namespace, count in zip(PLACES, left, strict=True):
        partition = store.open(namespace)
        assert (partition.load_offset(GROUP, 7) is not None) == bool(count)
        partition.close()
    store.close()


async def clearing_may_be_repeated(open_store: OpenStore) -> None:
    store = open_store()
    await store.clear((1,), (1, 1), PLACES[0])
    fill(store, *PLACES)
    for _ in range(2):
        await store.clear((1, 12), PLACES[1])
        assert found(store, *PLACES) == [1, 0, 0, 1]
    store.close()


async def a_replaced_partition_is_empty_at_once(open_store: OpenStore) -> None:
    store = open_store()
    fill(store, *PLACES[:2])
    old = store.open(PLACES[0])
    generation = old.log.generation
    store.set_aside(PLACES[0])
    old.abandon(purged=True)
    new = store.open(PLACES[0], generation=generation + 1)
    assert (new.statistics.messages_count, new.current_offset) == (0, 0)
    assert new.load_offset(GROUP, 7) is None
    assert new.log.generation == generation + 1
    new.append(batch_of([b"new"]), now=2)
    new.close()
    await store.sync()
    store.close()
    store = open_store()
    assert found(store, *PLACES[:2]) == [1, 1]
    partition = store.open(PLACES[0])
    assert partition.log.generation == generation + 1, "a generation is stored"
    partition.close()
    store.close()


async def an_earlier_generation_is_removed(open_store: OpenStore) -> None:
    """A purge that was decided and interrupted is finished by opening the partition."""
    store = open_store()
    fill(store, PLACES[0])
    partition = store.open(PLACES[0], generation=3)
    assert (partition.statistics.messages_count, partition.log.generation) == (0, 3)
    assert partition.load_offset(GROUP, 7) is None
    partition.append(batch_of([b"kept"]), now=2)
    partition.close()
    partition = store.open(PLACES[0], generation=3)
    assert partition.statistics.messages_count == 1
    partition.close()
    store.close()


async def closing_many_keeps_all(open_store: OpenStore) -> None:
    store = open_store()
    fill(store, *PLACES)
    partitions: list[Partition] = [store.open(namespace) for namespace in PLACES]
    for partition in partitions:
        partition.append(batch_of([b"more"]), now=2)
    store.prepare_to_close(partitions)
    for partition in partitions:
        partition.close()
    store.close()
    store = open_store()
    assert found(store, *PLACES) == [2, 2, 2, 2]
    store.close()


CHECKS: Final[tuple[Check, ...]] = (
    what_was_stored_is_found_again,
    a_partition_is_dropped_alone,
    a_topic_is_dropped_with_its_partitions,
    a_stream_is_dropped_with_its_topics,
    clearing_may_be_repeated,
    a_replaced_partition_is_empty_at_once,
    an_earlier_generation_is_removed,
    closing_many_keeps_all,
)
