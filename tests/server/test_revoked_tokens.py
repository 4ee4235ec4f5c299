import asyncio
import json
from pathlib import Path

import pytest
from tests.support.embedded import embedded_server

from borzoi.model.errors import LimitReached, StateCorrupted, StorageFailure
from borzoi.server import revoked_tokens
from borzoi.server.revoked_tokens import REVOKED_TOKENS, RevokedTokens, read_revoked_tokens
from borzoi.storage.local import LocalMedium
from borzoi.storage.media import Medium, replace_file
from borzoi.tools import importing


def test_a_token_is_remembered_until_it_expires(tmp_path: Path) -> None:
    medium, path = LocalMedium(), tmp_path / "revoked_tokens.json"
    assert read_revoked_tokens(medium, tmp_path, now=0) == {}
    path.write_text(json.dumps({"early": 100, "late": 200}))
    assert read_revoked_tokens(medium, tmp_path, now=99) == {"early": 100, "late": 200}
    assert read_revoked_tokens(medium, tmp_path, now=100) == {"late": 200}
    assert json.loads(path.read_text()) == {"late": 200}
    assert read_revoked_tokens(medium, tmp_path, now=200) == {}
    assert not path.exists()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"a": "b"}'])
def test_a_list_that_cannot_be_read_is_not_taken_for_an_empty_one(
    tmp_path: Path, content: str
) -> None:
    (tmp_path / "revoked_tokens.json").write_text(content)
    with pytest.raises(StateCorrupted, match=r"revoked_tokens\.json cannot be read"):
        read_revoked_tokens(LocalMedium(), tmp_path, now=0)


async def test_a_start_knows_what_an_import_brought_along(tmp_path: Path) -> None:
    far = 2**40
    assert REVOKED_TOKENS == importing.REVOKED_TOKENS
    (tmp_path / "revoked_tokens.json").write_text(json.dumps({"old": 1, "good": far}))
    async with embedded_server(tmp_path) as server:
        assert "good" in server.opened.revoked_tokens
        assert len(server.opened.revoked_tokens) == 1


async def test_what_is_given_back_is_in_the_file_when_that_is_said(tmp_path: Path) -> None:
    tokens = RevokedTokens(LocalMedium(), tmp_path, {"known": 50})
    assert "known" in tokens
    await tokens.add("new", 100)
    assert "new" in tokens
    stored = json.loads((tmp_path / REVOKED_TOKENS).read_text())
    assert stored == {"known": 50, "new": 100}
    await tokens.forget_expired(now=50)
    assert "known" not in tokens
    assert read_revoked_tokens(LocalMedium(), tmp_path, now=0) == {"new": 100}


async def test_many_share_a_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writes = []

    def counted(medium: Medium, path: Path, content: bytes) -> None:
        writes.append(content)
        replace_file(medium, path, content)

    monkeypatch.setattr(revoked_tokens, "replace_file", counted)
    tokens = RevokedTokens(LocalMedium(), tmp_path, {})
    await asyncio.gather(*(tokens.add(f"token {number}", 100) for number in range(200)))
    assert len(writes) == 2
    assert len(read_revoked_tokens(LocalMedium(), tmp_path, now=0)) == 200
    await tokens.forget_expired(now=50)
    assert len(writes) == 2  # there was nothing to forget


async def test_a_file_that_cannot_be_written_is_told_and_the_token_stays_shut_out(
    tmp_path: Path,
) -> None:
    tokens = RevokedTokens(LocalMedium(), tmp_path / "not there", {})
    with pytest.raises(StorageFailure):
        await tokens.add("new", 100)
    assert "new" in tokens


async def test_there_is_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revoked_tokens, "REVOKED_MAX", 2)
    tokens = RevokedTokens(LocalMedium(), tmp_path, {"a": 1, "b": 2})
    with pytest.raises(LimitReached):
        await tokens.add("c", 3)
