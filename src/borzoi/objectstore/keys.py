"""Which keys are allowed: those that every store and every file system keeps as they are."""

import re
from typing import Final

from borzoi.objectstore.errors import InvalidKey

KEY_BYTES_MAX: Final = 900
ALLOWED: Final = f"1 to {KEY_BYTES_MAX} characters of A-Z a-z 0-9 . _ = - in parts divided by /"

#: Parts may not be "." or "..": a directory would take them for itself or its parent.
_KEY: Final = re.compile(
    r"(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._=-]+(?:/(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._=-]+)*"
)


def checked_key(key: str) -> str:
    """The key itself; `InvalidKey` when a store could change or refuse it."""
    if len(key) > KEY_BYTES_MAX or _KEY.fullmatch(key) is None:
        raise InvalidKey(f"{key!r} is not a key; it takes {ALLOWED}")
    return key


def checked_prefix(prefix: str) -> str:
    """The start of keys, possibly empty, possibly ending with a slash."""
    if prefix and prefix != "/":
        checked_key(prefix.removesuffix("/"))
    elif prefix:
        raise InvalidKey(f"{prefix!r} is not the start of a key; it takes {ALLOWED}")
    return prefix


def joined(*parts: str) -> str:
    """Parts of a key with slashes between them; empty ones are left out."""
    return "/".join(part for part in parts if part)
