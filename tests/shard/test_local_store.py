from pathlib import Path

import pytest
from tests.support.disk import SimulatedDisk
from tests.support.faults import Fault, FaultyMedium
from tests.support.logs import batch_of
from tests.support.stores import store_in

from borzoi.model.errors import StorageFailure
from borzoi.model.namespace import Namespace

ROOT = Path("/data")
ZERO = Namespace(0, 0, 0)


def test_a_place_that_cannot_be_emptied_stays_as_it_is() -> None:
    disk = SimulatedDisk()
    is_broken = False
    medium = FaultyMedium(
        disk, lambda operation, _: Fault.IO_ERROR if is_broken and operation == "rename" else None
    )
    store = store_in(ROOT, medium)
    partition = store.open(ZERO)
    partition.append(batch_of([b"a"]), now=1)
    is_broken = True
    with pytest.raises(StorageFailure):
        store.set_aside(ZERO)
    partition.append(batch_of([b"b"]), now=2)
    assert partition.statistics.messages_count == 2
    store.close()


def test_a_place_that_is_a_file_is_a_storage_failure(tmp_path: Path) -> None:
    disk = SimulatedDisk()
    store = store_in(ROOT, disk)
    store.make((0, 0))
    store.make((0, 0))
    assert disk.exists(ROOT / "streams/0/topics/0")
    store.close()
