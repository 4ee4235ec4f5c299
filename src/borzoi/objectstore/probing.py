"""Tests whether a store has the properties borzoi relies on, with a few requests.

Some S3-compatible servers overwrite an object despite `If-None-Match: *`, or send the whole object
for a range. A log on such a store would silently lose messages, so borzoi probes it first.
"""

import uuid
from collections.abc import Awaitable, Callable
from typing import Final

from borzoi.model.value import Value
from borzoi.objectstore.errors import (
    ConditionalWriteUnsupported,
    ObjectExists,
    ObjectNotFound,
    ObjectStoreError,
    WeakStore,
)
from borzoi.objectstore.interface import ObjectStore
from borzoi.objectstore.listing import list_objects

PROBE_PREFIX: Final = "probe/"
FIRST: Final = b"borzoi probe: the first object with this key"
SECOND: Final = b"borzoi probe: another object, which must not replace the first one"


class ProbedProperty(Value):
    """One property, and whether the store has it."""

    property: str
    holds: bool
    detail: str = ""


class ProbeResult(Value):
    """What the probe found, in the order of its requests."""

    findings: tuple[ProbedProperty, ...]

    @property
    def accepted(self) -> bool:
        return all(finding.holds for finding in self.findings)

    def check(self) -> None:
        """Raise the first fault of the store, if any."""
        for finding in self.findings:
            if not finding.holds:
                family = ConditionalWriteUnsupported if finding.property == EXCLUSIVE else WeakStore
                raise family(f"the store cannot be used: {finding.property}: {finding.detail}")


CREATE: Final = "an object can be created"
EXCLUSIVE: Final = "creating it again fails and leaves the first one"
RANGED: Final = "a range of it can be read"
LISTED: Final = "a listing shows it at once"
DELETED: Final = "a deleted object is gone at once"


async def probe(store: ObjectStore, *, key: str | None = None) -> ProbeResult:
    """Test everything that borzoi needs; leaves nothing behind.

    A store that does not answer raises: nothing is known about it yet.
    """
    key = key or f"{PROBE_PREFIX}{uuid.uuid4().hex}"
    findings = []
    try:
        for name, question in _QUESTIONS:
            try:
                detail = await question(store, key)
            except WeakStore as fault:
                detail = str(fault)
            findings.append(ProbedProperty(name, not detail, detail))
    except ObjectStoreError:
        await _tidied(store, key)
        raise
    await _tidied(store, key)
    return ProbeResult(tuple(findings))


async def _tidied(store: ObjectStore, key: str) -> None:
    try:
        await store.delete(key)
    except ObjectStoreError:
        pass  # the earlier fault says more


async def _creates(store: ObjectStore, key: str) -> str:
    await store.create(key, FIRST)
    return ""


async def _excludes(store: ObjectStore, key: str) -> str:
    try:
        await store.create(key, SECOND)
    except ObjectExists:
        found = bytes((await store.get(key)).data)
        return "" if found == FIRST else "it fails, but the object was replaced"
    return "the second create was answered with success; the store ignores If-None-Match"


async def _reads_ranges(store: ObjectStore, key: str) -> str:
    try:
        found = bytes(await store.get_range(key, 7, 12))
    except ObjectStoreError as fault:
        if fault.retriable:
            raise
        return str(fault)
    # Accept either object: a replaced one is another finding.
    return "" if found in (FIRST[7:12], SECOND[7:12]) else "other bytes came back"


async def _lists(store: ObjectStore, key: str) -> str:
    keys = [meta.key async for meta in list_objects(store, key.rpartition("/")[0] + "/")]
    return "" if key in keys else "the object is missing from it"


async def _deletes(store: ObjectStore, key: str) -> str:
    await store.delete(key)
    if not await _lists(store, key):
        return "a listing still shows it"
    try:
        await store.head(key)
    except ObjectNotFound:
        return ""
    return "it can still be read"


_QUESTIONS: Final[tuple[tuple[str, Callable[[ObjectStore, str], Awaitable[str]]], ...]] = (
    (CREATE, _creates),
    (EXCLUSIVE, _excludes),
    (RANGED, _reads_ranges),
    (LISTED, _lists),
    (DELETED, _deletes),
)
