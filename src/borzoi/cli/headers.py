"""User headers as text: ``key:kind:value``, separated by commas. Pure."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from borzoi.model.errors import InvalidFormat
from borzoi.records.user_headers import HeaderKind, HeaderValue


def _truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


def _raw(text: str) -> bytes:
    return text.encode()


_READERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "raw": _raw,
    "string": str,
    "bool": _truth,
    "float32": float,
    "float64": float,
}


def headers_of(text: str) -> dict[str, HeaderValue]:
    """Parse headers."""
    found: dict[str, HeaderValue] = {}
    for part in text.split(","):
        key, first, rest = part.partition(":")
        kind, second, value = rest.partition(":")
        names = {one.name.lower(): one for one in HeaderKind}
        if not (key and first and second):
            raise InvalidFormat(f"{part!r} is not a header: write key:kind:value")
        if kind not in names:
            raise InvalidFormat(f"{kind!r} is not a kind of header; allowed are {', '.join(names)}")
        try:
            found[key] = HeaderValue.of(_READERS.get(kind, int)(value), names[kind])
        except ValueError:
            raise InvalidFormat(f"the header {key!r} is not of kind {kind}: {value!r}") from None
    return found
