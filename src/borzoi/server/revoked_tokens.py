"""HTTP access tokens that were revoked before they expired, as an import brought them along.

`revoked_tokens.json` in the data directory: the id of each token and when it expires, in seconds
since the epoch. A token that has expired opens nothing any more, so a start forgets it, and the
file with the last one.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from borzoi.model.errors import StateCorrupted
from borzoi.storage.media import Medium, replace_file

log = logging.getLogger(__name__)

#: As `storage.importing` calls it, which no server has to load.
REVOKED_TOKENS: Final = "revoked_tokens.json"


def read_revoked_tokens(medium: Medium, directory: Path, *, now: int) -> Mapping[str, int]:
    """The tokens that must not be accepted at `now`, by id, with their expiry.

    `StateCorrupted` for a file that cannot be read: going on without it would accept them again.
    """
    path = directory / REVOKED_TOKENS
    if not medium.exists(path):
        return {}
    file = medium.open(path, writable=False)
    try:
        stored = msgspec.json.decode(file.read(file.size(), 0), type=dict[str, int])
    except msgspec.DecodeError as fault:
        raise StateCorrupted(f"{path} cannot be read: {fault}") from fault
    valid = {token_id: expiry for token_id, expiry in stored.items() if expiry > now}
    if not valid:
        medium.unlink(path)
    elif len(valid) < len(stored):
        replace_file(medium, path, msgspec.json.encode(valid) + b"\n")
    log.info("%d of %d revoked HTTP tokens have not expired yet", len(valid), len(stored))
    return valid
