"""Valid keys: those that every store and every file system preserves."""

import re
from typing import Final

from borzoi.objectstore.errors import InvalidKey

KEY_BYTES_MAX: Final = 900
ALLOWED: Final = f"1 to {KEY_BYTES_MAX} characters of A-Z a-z 0-9 . _ = - in parts divided by /"

#: Parts may not be "." or "..": a file system resolves them.
_KEY: Final = re.compile(
    r"(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._=-]+(?:/(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._=-]+)*"
)


def checked_key(key: str) -> str:
    """Return the key; `InvalidKey` if a store could change or reject it."""
    if len(key) > KEY_BYTES_MAX or _KEY.fullmatch(key) is None:
        raise InvalidKey(f"{key!r} is not a key; it takes {ALLOWED}")
    return key


def checked_prefix(prefix: str) -> str:
    """Return a prefix of keys, possibly empty, possibly ending with a slash."""
    if prefix and prefix != "/":
        checked_key(prefix.removesuffix("/"))
    elif prefix:
        raise InvalidKey(f"{prefix!r} is not the start of a key; it takes {ALLOWED}")
    return prefix


def joined(*parts: str) -> str:
    """Join parts of a key with slashes; empty ones are left out."""
    return "/".join(part for part in parts if part)
