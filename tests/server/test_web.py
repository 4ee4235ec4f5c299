"""HTTP from its settings."""

from pathlib import Path

from borzoi.listeners.http.cors import Cors
from borzoi.server.config import load
from borzoi.server.transport_settings import HttpSection
from borzoi.server.web import cors_of


def section_of(folder: Path, **settings: str) -> HttpSection:
    environment = {f"BORZOI_HTTP_{name}": value for name, value in settings.items()}
    return load(environment, folder).settings.http


def test_cors_is_on_by_default(tmp_path: Path) -> None:
    assert cors_of(section_of(tmp_path).cors) == Cors(exposed=("",))
    assert cors_of(section_of(tmp_path, CORS_ENABLED="false").cors) is None
