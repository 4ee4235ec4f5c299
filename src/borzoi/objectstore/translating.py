"""What obstore raises, in the words of `errors.py`. Pure: exception in, exception out.

obstore tells the HTTP status only in its text, and raises `AlreadyExistsError` for every 409. S3
means "try again" by it; Azure also answers 409 where S3 answers 412, and says so with a code of its
own. Where the text leaves open whether a write was done, it is `Ambiguous`.
"""

import re
from typing import Final

from borzoi.objectstore.errors import (
    Ambiguous,
    ObjectExists,
    ObjectNotFound,
    ObjectStoreError,
    PartSizeTooSmall,
    PermissionDenied,
    PreconditionFailed,
    RangeOutOfBounds,
    Throttled,
    Unavailable,
    WeakStore,
)

WRITES: Final = frozenset({"put", "create", "part", "complete", "delete", "delete_many"})

_STATUS: Final = re.compile(r"status code: (\d{3})")
_RANGE: Final = re.compile(r"[Rr]ange .*(?:invalid|starting at)|Invalid range|StartTooLarge")
#: The connection was never made, so nothing was sent.
_NOT_SENT: Final = re.compile(r"ConnectError|\bConnect\b|Connection refused|dns error")
#: Of S3 and Google, and of Azure.
_NO_BUCKET: Final = re.compile(r"NoSuchBucket|ContainerNotFound")
_NOT_PARTIAL: Final = re.compile(r"non-partial|not partial|NotPartial")


def translated(fault: Exception, *, op: str, key: str) -> ObjectStoreError:
    """Our own error for `fault`, by what it means to the caller of `op`."""
    text = str(fault)
    found = _STATUS.search(text)
    status = int(found[1]) if found else None
    return _family(type(fault).__name__, text, status, op)(
        _first_line(text), op=op, key=key, status=status
    )


def _family(name: str, text: str, status: int | None, op: str) -> type[ObjectStoreError]:
    unknown = Ambiguous if op in WRITES else Unavailable
    match name:
        case "FileNotFoundError" | "NotFoundError":
            # Without its bucket a store is as good as down; no object of it is missing.
            return Unavailable if _NO_BUCKET.search(text) else ObjectNotFound
        case "AlreadyExistsError":
            is_answer = op == "create" and (status != 409 or "BlobAlreadyExists" in text)
            return ObjectExists if is_answer else unknown
        case "PermissionDeniedError" | "UnauthenticatedError":
            return PermissionDenied
        case "PreconditionError":
            return PreconditionFailed
        case _ if status is not None:
            return _by_status(status, text, unknown)
        case _ if _RANGE.search(text):
            return RangeOutOfBounds
        case _ if _NOT_PARTIAL.search(text):
            return WeakStore
        case _ if _NOT_SENT.search(text):
            return Unavailable
    return unknown


def _by_status(status: int, text: str, unknown: type[ObjectStoreError]) -> type[ObjectStoreError]:
    if status in (429, 503):
        return Throttled
    if status in (401, 403):
        return PermissionDenied
    if status == 416:
        return RangeOutOfBounds
    if "EntityTooSmall" in text:
        return PartSizeTooSmall
    if status >= 500 or status in (408, 409) or "RequestTimeout" in text:
        return unknown
    return ObjectStoreError


def _first_line(text: str) -> str:
    """One line without the debugging output that follows it."""
    line = text.split("\n\nDebug source", 1)[0].replace("\n", " ")
    return line if len(line) <= 500 else f"{line[:500]}…"
