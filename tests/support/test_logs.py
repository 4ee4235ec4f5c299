from tests.support.logs import ManualSyncer, batch_of, numbered, payloads_in

from borzoi.model.errors import CannotSync, StorageFailure
from borzoi.records.batch import verify


def test_a_batch_is_as_a_client_sends_it() -> None:
    batch = batch_of([b"a", b"bc"], ids=[5, 6])
    assert payloads_in(batch.messages) == [b"a", b"bc"]
    assert batch.offsets().tolist() == [0, 0]
    assert [int.from_bytes(each, "little") for each in batch.ids().tolist()] == [5, 6]


def test_a_numbered_batch_is_as_a_log_stores_it() -> None:
    batch = numbered([b"a"] * 20, base_offset=7, timestamp=9)
    assert verify(batch) is None
    assert batch.offsets().tolist() == [*range(7, 27)]
    again = numbered([b"a"] * 20, base_offset=7, timestamp=9)
    assert bytes(again.messages) == bytes(batch.messages)


def test_jobs_wait_until_they_are_told_to_run() -> None:
    syncer = ManualSyncer()
    told: list[StorageFailure | None] = []

    def fail() -> None:
        raise CannotSync("no")

    syncer.submit(lambda: None, told.append)
    syncer.submit(fail, told.append)
    assert told == []
    assert syncer.run_next()
    assert told == [None]
    syncer.run_all()
    assert isinstance(told[1], CannotSync)
    assert not syncer.run_next()
