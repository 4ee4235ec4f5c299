"""The conformance suite of stores: the local one passes, faulty ones do not."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support import store_conformance
from tests.support.disk import SimulatedDisk
from tests.support.store_conformance import CHECKS, Check
from tests.support.stores import store_in

from borzoi.model.namespace import Namespace
from borzoi.partitions.partition import Partition
from borzoi.shard.local_store import LocalPartitionStore
from borzoi.shard.partition_store import PartitionStore, Place
from borzoi.storage.local import LocalMedium
from borzoi.storage.media import Medium


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_the_local_store_conforms(tmp_path: Path, check: Check) -> None:
    await check(lambda: store_in(tmp_path, LocalMedium()))


class Faulty:
    """A local store in most respects."""

    def __init__(self, root: Path, medium: Medium) -> None:
        self.root = root
        self.store: LocalPartitionStore = store_in(root, medium)

    def __getattr__(self, name: str) -> object:
        return getattr(self.store, name)


class DropsByPrefix(Faulty):
    """Takes stream 11 for a part of stream 1, as keys without a separator would."""

    async def drop(self, place: Place) -> None:
        folder = self.store._folder(place)
        for found in folder.parent.glob(f"{folder.name}*"):
            shutil.rmtree(found)


class DropsInMemoryOnly(Faulty):
    """Forgets until the next start."""

    async def drop(self, place: Place) -> None:
        return


class RefusesToClearNothing(Faulty):
    async def clear(self, *places: Place) -> None:
        for place in places:
            shutil.rmtree(self.store._folder(place))


class ForgetsGenerations(Faulty):
    def open(self, namespace: Namespace, *, generation: int = 0) -> Partition:
        return self.store.open(namespace)


class KeepsWhatIsSetAside(Faulty):
    def set_aside(self, place: Place) -> None:
        assert self.store._folder(place).exists()

    def open(self, namespace: Namespace, *, generation: int = 0) -> Partition:
        return self.store.open(namespace)


@pytest.mark.parametrize(
    ("faulty", "check"),
    [
        (DropsByPrefix, store_conformance.a_stream_is_dropped_with_its_topics),
        (DropsByPrefix, store_conformance.a_topic_is_dropped_with_its_partitions),
        (DropsInMemoryOnly, store_conformance.a_partition_is_dropped_alone),
        (RefusesToClearNothing, store_conformance.clearing_may_be_repeated),
        (ForgetsGenerations, store_conformance.an_earlier_generation_is_removed),
        (ForgetsGenerations, store_conformance.a_replaced_partition_is_empty_at_once),
        (KeepsWhatIsSetAside, store_conformance.a_replaced_partition_is_empty_at_once),
    ],
    ids=lambda part: part.__name__,
)
async def test_a_faulty_store_is_found_out(
    tmp_path: Path, faulty: Callable[[Path, Medium], PartitionStore], check: Check
) -> None:
    with pytest.raises((AssertionError, OSError)):
        await check(lambda: faulty(tmp_path, LocalMedium()))


def test_a_place_is_never_the_whole_store() -> None:
    store = store_in(Path("/data"), SimulatedDisk())
    for place in ((), (1, 2, 3, 4), (-1,)):
        with pytest.raises(AssertionError):
            store.set_aside(place)  # type: ignore[arg-type]
    store.close()
