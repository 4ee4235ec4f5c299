"""HTTP access tokens that were revoked before they expired, here or before an import.

`revoked_tokens.json` in the data directory: the id of each token and when it expires, in seconds
since the epoch. Expired tokens are removed, and with the last one the
file.
"""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from borzoi.model.errors import LimitReached, StateCorrupted, StorageFailure
from borzoi.storage.media import Medium, content_of, replace_file

log = logging.getLogger(__name__)

#: As `storage.importing` calls it, which no server has to load.
REVOKED_TOKENS: Final = "revoked_tokens.json"
#: Each is kept until it would have expired anyway. Beyond this no more can be revoked, because
#: dropping one would make it valid again.
REVOKED_MAX: Final = 100_000


def read_revoked_tokens(medium: Medium, directory: Path, *, now: int) -> Mapping[str, int]:
    """Return the tokens revoked at `now`, by id, with their expiry.

    `StateCorrupted` for a file that cannot be read: ignoring it would accept them again.
    """
    path = directory / REVOKED_TOKENS
    if not medium.exists(path):
        return {}
    try:
        stored = msgspec.json.decode(content_of(medium, path), type=dict[str, int])
    except msgspec.DecodeError as fault:
        raise StateCorrupted(f"{path} cannot be read: {fault}") from fault
    valid = {token_id: expiry for token_id, expiry in stored.items() if expiry > now}
    if not valid:
        medium.unlink(path)
    elif len(valid) < len(stored):
        replace_file(medium, path, msgspec.json.encode(valid) + b"\n")
    log.info("%d of %d revoked HTTP tokens have not expired yet", len(valid), len(stored))
    return valid


class RevokedTokens:
    """The ids of revoked tokens, in memory and in the file."""

    def __init__(self, medium: Medium, directory: Path, known: Mapping[str, int]) -> None:
        self._medium = medium
        self._path = directory / REVOKED_TOKENS
        self._expiries = dict(known)
        self._writing = asyncio.Lock()
        #: Number of changes in memory, and in the file.
        self._changes = self._written = 0

    def __contains__(self, token_id: object) -> bool:
        return token_id in self._expiries

    def __len__(self) -> int:
        return len(self._expiries)

    async def add(self, token_id: str, expiry: int) -> None:
        """Revoke a token; returns when the file is written. `LimitReached` when it is full."""
        if len(self._expiries) >= REVOKED_MAX:
            raise LimitReached(f"{REVOKED_MAX} tokens were revoked and have not expired yet")
        self._expiries[token_id] = expiry
        await self._change()

    async def forget_expired(self, *, now: int) -> None:
        """Drop what has expired at `now`, in seconds."""
        expired = [token_id for token_id, expiry in self._expiries.items() if expiry <= now]
        if expired:
            for token_id in expired:
                del self._expiries[token_id]
            await self._change()

    async def _change(self) -> None:
        """Write the file, once for all changes made during the previous write."""
        self._changes += 1
        mine = self._changes
        async with self._writing:
            if self._written >= mine:
                return
            changes, content = self._changes, msgspec.json.encode(self._expiries) + b"\n"
            try:
                await asyncio.to_thread(replace_file, self._medium, self._path, content)
            except OSError as fault:
                raise StorageFailure(f"{self._path} cannot be written: {fault}") from fault
            self._written = changes
