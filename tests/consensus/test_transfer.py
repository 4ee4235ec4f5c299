import pytest

from borzoi.consensus.checkpoint import Artifact, manifest_of
from borzoi.consensus.frames import root
from borzoi.consensus.invariants import InvariantError
from borzoi.consensus.transfer import Transfer

ARTIFACTS = (Artifact(1, 5, bytes(range(100))), Artifact(2, 5, b""), Artifact(3, 5, b"tail"))


def accepted(chunk_bytes: int = 10) -> Transfer:
    transfer = Transfer(1, b"n" * 16, chunk_bytes)
    transfer.accept(manifest_of(root(bytes(16), 0), ARTIFACTS))
    return transfer


def drain(transfer: Transfer) -> None:
    while chunks := transfer.next_chunks() or transfer.outstanding():
        for wanted in chunks:
            content = ARTIFACTS[wanted.artifact].content
            end = wanted.offset + wanted.length
            assert transfer.receive(wanted.artifact, wanted.offset, content[wanted.offset : end])


def test_chunks_are_asked_four_at_a_time_and_make_up_the_checkpoint():
    transfer = accepted()
    assert not transfer.is_complete()
    assert [w.offset for w in transfer.outstanding()] == [0, 10, 20, 30]
    assert transfer.next_chunks() == []
    drain(transfer)
    assert transfer.is_complete()
    checkpoint = transfer.checkpoint()
    assert checkpoint is not None
    assert checkpoint.artifacts == ARTIFACTS


def test_unasked_or_short_chunks_are_not_taken():
    transfer = accepted()
    transfer.next_chunks()
    assert not transfer.receive(0, 5, bytes(10))
    assert not transfer.receive(0, 0, bytes(9))
    assert transfer.receive(0, 0, bytes(10))
    assert not transfer.receive(0, 0, bytes(10))


def test_an_artifact_that_is_not_what_the_manifest_promised_is_refused():
    transfer = accepted(100)
    for wanted in transfer.next_chunks():
        transfer.receive(wanted.artifact, wanted.offset, b"x" * wanted.length)
    assert transfer.is_complete()
    assert transfer.checkpoint() is None


def test_nothing_is_complete_before_an_offer():
    transfer = Transfer(1, b"n" * 16, 10)
    assert transfer.checkpoint() is None
    assert not transfer.is_complete()
    with pytest.raises(InvariantError):
        transfer.next_chunks()


def test_a_transfer_takes_one_offer():
    with pytest.raises(InvariantError):
        accepted().accept(manifest_of(root(bytes(16), 0), ()))
