import pytest

from borzoi.consensus.client_table import CachedReply, ClientTable, RequestVerdict
from borzoi.consensus.messages import ZERO
from borzoi.model.errors import StateCorrupted

ADA, BOB, EVE = (number.to_bytes(16, "little") for number in (1, 2, 3))
SUM = b"s" * 16


def table(sessions_max: int = 4) -> ClientTable:
    made = ClientTable(sessions_max)
    made.register(ADA, 10, 7)
    return made


def applied(made: ClientTable, client: bytes, op: int, request: int) -> None:
    made.record(client, op, request, SUM, CachedReply(request, 0, b"reply %d" % request))


def test_register_answers_with_the_epoch():
    assert ClientTable(4).register(ADA, 10, 7) == (10).to_bytes(8, "little")


def test_preflight_tells_every_case_apart():
    made = table()
    applied(made, ADA, 11, 1)
    assert made.preflight(BOB, 1, SUM, 0) == (RequestVerdict.UNKNOWN_SESSION, None)
    assert made.preflight(ADA, 2, SUM, 9) == (RequestVerdict.FENCED, None)
    assert made.preflight(ADA, 2, SUM, 10) == (RequestVerdict.NEW, None)
    assert made.preflight(ADA, 1, SUM, 0) == (RequestVerdict.RESEND, CachedReply(1, 0, b"reply 1"))
    assert made.preflight(ADA, 1, ZERO, 0) == (RequestVerdict.MISMATCH, None)
    for op, request in enumerate(range(2, 8), start=12):
        applied(made, ADA, op, request)
    assert made.preflight(ADA, 1, SUM, 0) == (RequestVerdict.ALREADY_APPLIED, None)
    assert made.preflight(ADA, 4, SUM, 0)[0] is RequestVerdict.RESEND


def test_registering_again_starts_a_new_epoch():
    made = table()
    applied(made, ADA, 11, 5)
    made.register(ADA, 12, 7)
    assert made.preflight(ADA, 1, SUM, 12)[0] is RequestVerdict.NEW
    assert made.preflight(ADA, 6, SUM, 10)[0] is RequestVerdict.FENCED


def test_the_session_with_the_oldest_commit_is_evicted():
    made = table(2)
    made.register(BOB, 11, 7)
    applied(made, ADA, 12, 1)
    made.register(EVE, 13, 7)
    assert made.preflight(BOB, 1, SUM, 11)[0] is RequestVerdict.UNKNOWN_SESSION
    assert made.preflight(ADA, 2, SUM, 10)[0] is RequestVerdict.NEW


def test_an_op_of_an_evicted_session_leaves_no_trace():
    made = table()
    made.unregister(ADA)
    applied(made, ADA, 11, 1)
    assert len(made) == 0


def test_a_checkpoint_keeps_order_watermarks_and_the_last_reply():
    made = table()
    made.register(BOB, 11, 8)
    applied(made, ADA, 12, 3)
    other = ClientTable(4)
    other.restore(made.encode())
    assert other.encode() == made.encode()
    assert other.preflight(ADA, 3, SUM, 10) == (
        RequestVerdict.RESEND,
        CachedReply(3, 0, b"reply 3"),
    )
    other.register(EVE, 20, 1)
    assert len(other) == 3


def test_a_table_larger_than_its_new_limit_shrinks_instead_of_failing():
    made = table()
    made.register(BOB, 11, 8)
    made.register(EVE, 12, 8)
    small = ClientTable(1)
    small.restore(made.encode())
    small.register(ADA, 13, 7)
    assert len(small) == 1


def test_a_damaged_table_is_refused():
    raw = table().encode()
    for cut in (10, len(raw) - 1):
        with pytest.raises(StateCorrupted):
            ClientTable(4).restore(raw[:cut])
