"""How a value that holds a secret is shown: without it.

A struct shows all its fields wherever it is written into a log line or an error text. One that
holds a secret says in its body what to leave out: ``__repr__ = hiding("password")``.
"""

from collections.abc import Callable
from typing import Any


def hiding(*secrets: str) -> Callable[[Any], str]:
    """The representation of a struct without these fields."""

    def shown(value: Any) -> str:
        names = [name for name in value.__struct_fields__ if name not in secrets]
        inner = ", ".join(f"{name}={getattr(value, name)!r}" for name in names)
        return f"{type(value).__name__}({inner})"

    return shown
