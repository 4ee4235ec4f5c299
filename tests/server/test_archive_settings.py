from borzoi.server.config import KEYS
from borzoi.server.settings import Settings

ARCHIVER = ("system", "backup", "archiver")


def test_nothing_is_archived_unless_it_is_asked_for() -> None:
    assert not Settings().system.backup.archiver.enabled


def test_credentials_are_shown_to_nobody() -> None:
    secret = {key.path[-1] for key in KEYS if key.path[:3] == ARCHIVER and key.declaration.secret}
    assert secret == {"access_key_id", "secret_access_key", "session_token"}
