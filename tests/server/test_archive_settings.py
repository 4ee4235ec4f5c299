from borzoi.server.config import KEYS
from borzoi.server.settings import Settings

OBJECT = "system.backup.archiver.object."


def test_nothing_is_archived_unless_it_is_asked_for() -> None:
    assert not Settings().system.backup.archiver.enabled


def test_credentials_are_shown_to_nobody() -> None:
    ours = [key for key in KEYS if key.path.startswith(OBJECT)]
    secret = {key.path.removeprefix(OBJECT) for key in ours if key.declaration.secret}
    assert secret == {"access_key_id", "secret_access_key", "session_token"}
