"""What can go wrong with an object store, by what the caller does next.

ObjectNotFound ObjectExists      an answer, not a fault
RangeOutOfBounds PartSizeTooSmall InvalidKey PreconditionFailed
                                 a mistake of the caller
Throttled Unavailable            not done; retry
Ambiguous                        a write that may have been done; check, then retry
PermissionDenied                 credentials or policy
ConditionalWriteUnsupported WeakStore
                                 the store lacks a property borzoi relies on
Corrupt                          bytes that fail their checksum
Fenced                           another writer has taken over
"""

from typing import ClassVar

from borzoi.model.errors import StorageFailure


class ObjectStoreError(StorageFailure):
    """An operation on one key failed."""

    #: Whether the same request may succeed later without any change.
    retriable: ClassVar[bool] = False

    def __init__(
        self, text: str, *, op: str = "", key: str = "", status: int | None = None
    ) -> None:
        super().__init__(f"{op} {key}: {text}" if op else text)
        self.op = op
        self.key = key
        self.status = status


class ObjectNotFound(ObjectStoreError):
    """There is no object with this key."""


class ObjectExists(ObjectStoreError):
    """An object with this key exists, and it is not ours."""


class PreconditionFailed(ObjectStoreError):
    """The object does not have the version that the request named."""


class RangeOutOfBounds(ObjectStoreError):
    """The range reaches past the end of the object."""


class PartSizeTooSmall(ObjectStoreError):
    """Stores refuse parts below 5 MiB, except for the last one."""


class InvalidKey(ObjectStoreError):
    """The key is too long or has characters that some stores change."""


class Throttled(ObjectStoreError):
    """The store asks for fewer requests (503 SlowDown, 429)."""

    retriable = True


class Unavailable(ObjectStoreError):
    """A read failed, or a write that is known not to have reached the store."""

    retriable = True


class Ambiguous(ObjectStoreError):
    """A write whose answer was lost: it may or may not have been done."""

    retriable = True


class PermissionDenied(ObjectStoreError):
    """The credentials are missing, expired or do not allow this."""


class WeakStore(ObjectStoreError):
    """The store lacks a property that borzoi relies on."""


class ConditionalWriteUnsupported(WeakStore):
    """The store overwrites an object although the request was to create one."""


class Corrupt(ObjectStoreError):
    """The object fails its checksum or has the wrong format."""


class Fenced(ObjectStoreError):
    """A writer with a higher epoch has taken over; nothing more may be written."""
