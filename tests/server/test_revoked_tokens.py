import json
from pathlib import Path

import pytest
from tests.support.embedded import embedded_server

from borzoi.model.errors import StateCorrupted
from borzoi.server.revoked_tokens import REVOKED_TOKENS, read_revoked_tokens
from borzoi.storage.local import LocalMedium
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
        assert server.opened.revoked_tokens == {"good": far}
