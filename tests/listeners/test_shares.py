from borzoi.handlers.sessions import Session
from borzoi.listeners.shares import FRAMES_BEFORE_LOGIN, FRAMES_PER_TURN, frames_per_turn
from borzoi.model.system import TransportKind


def test_strangers_have_a_smaller_share() -> None:
    session = Session(1, "h:1", TransportKind.TCP, lambda: None, 0.0)
    assert frames_per_turn(session) == FRAMES_BEFORE_LOGIN < FRAMES_PER_TURN
    session.user_id = 0
    assert frames_per_turn(session) == FRAMES_PER_TURN
