"""HTTP from its settings."""

from pathlib import Path

from tests.support.starts import settings_with

from borzoi.listeners.http.cors import Cors
from borzoi.server.web import cors_of


def test_cors_is_on_by_default(tmp_path: Path) -> None:
    assert cors_of(settings_with(tmp_path).http.cors) == Cors(exposed=("",))
    assert cors_of(settings_with(tmp_path, HTTP_CORS_ENABLED="false").http.cors) is None
