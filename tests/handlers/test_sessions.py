import msgspec

from borzoi.handlers.sessions import Session, SessionRecord, Sessions
from borzoi.model.limits import U32_MAX
from borzoi.model.system import TransportKind


def session(client_id: int, **known) -> Session:
    return Session(client_id, "127.0.0.1:1", TransportKind.TCP, lambda: None, 0.0, **known)


def test_a_session_is_found_until_it_is_removed() -> None:
    sessions = Sessions()
    one, namesake = session(1), session(1)
    sessions.add(one)
    assert sessions.get(1) is one
    assert not sessions.remove(namesake)
    assert sessions.remove(one)
    assert not sessions.remove(one)
    assert len(sessions) == 0


def test_sessions_are_found_by_user_and_token() -> None:
    sessions = Sessions()
    mine, other = session(1, user_id=5, token_hash="t"), session(2, user_id=6)
    sessions.add(mine)
    sessions.add(other)
    assert sessions.of_user(5) == [mine]
    assert sessions.of_token("t") == [mine]


def test_one_that_was_given_up_is_no_client_but_still_connected_until_it_ends() -> None:
    sessions = Sessions()
    silent = session(1, user_id=5, token_hash="t")
    sessions.add(silent)
    assert sessions.give_up(silent)
    assert silent.stale
    assert not sessions.give_up(silent)
    assert (len(sessions), sessions.get(1)) == (0, None)
    assert sessions.of_user(5) == sessions.of_token("t") == sessions.connected() == [silent]
    assert not sessions.remove(silent)
    assert sessions.connected() == []


def test_the_silent_are_those_who_have_not_pinged_since_and_are_not_stale_yet() -> None:
    sessions = Sessions()
    quiet, stale, lively = session(1), session(2, stale=True), session(3)
    lively.pinged_at = 10.0
    for one in (quiet, stale, lively):
        sessions.add(one)
    assert sessions.silent_since(5.0) == [quiet]


def test_a_session_with_a_taken_id_gets_the_next_free_one() -> None:
    sessions = Sessions()
    same = [session(U32_MAX, user_id=5) for _ in range(3)]
    for one in same:
        sessions.add(one)
    assert [one.client_id for one in same] == [U32_MAX, 1, 2]
    assert sessions.of_user(5) == same
    assert sessions.remove(same[1])
    assert sessions.get(U32_MAX) is same[0]


def test_every_field_of_a_session_moves_or_is_known_to_stay() -> None:
    """A field that is added to sessions has to be put on one side."""
    staying = {"hang_up", "login_pending", "waiting", "input_ended", "stale", "closing", "socket"}
    session = Session(
        1, "127.0.0.1:1", TransportKind.TCP, lambda: None, 2.0, 3, "hash", joined=True
    )
    record = session.record
    assert {*record.__struct_fields__, *staying} == set(Session.__struct_fields__)
    restored = Session.restored(record)
    for name in record.__struct_fields__:
        assert getattr(restored, name) == getattr(record, name) == getattr(session, name)


def test_a_record_crosses_to_another_process_as_bytes() -> None:
    record = Session(1, "[::1]:1", TransportKind.WEBSOCKET, lambda: None, 2.5, None, None).record
    encoded = msgspec.msgpack.encode(record)
    assert msgspec.msgpack.decode(encoded, type=SessionRecord) == record
