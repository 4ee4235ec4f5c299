"""How many requests of one connection are answered before others come first.

The rest of what it sent ahead queues up (`partitions/turns.py`).
"""

from typing import Final

from borzoi.handlers.sessions import Session

FRAMES_PER_TURN: Final = 32
#: The same before its login. Clients log in with their first or second request.
FRAMES_BEFORE_LOGIN: Final = 4


def frames_per_turn(session: Session) -> int:
    return FRAMES_BEFORE_LOGIN if session.user_id is None else FRAMES_PER_TURN
