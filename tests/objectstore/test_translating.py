"""The texts are those of obstore 0.12.1; `test_obstore_adapter.py` sees that they still are."""

import pytest

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
from borzoi.objectstore.translating import translated


def raised(name: str, text: str) -> Exception:
    return type(name, (Exception,), {})(text)


def status(code: int, rest: str = "") -> str:
    return f"Generic S3 error: in 2ms - Server returned non-2xx status code: {code} X: {rest}"


@pytest.mark.parametrize(
    ("name", "text", "op", "family"),
    [
        ("FileNotFoundError", status(404, "NoSuchKey"), "get", ObjectNotFound),
        ("FileNotFoundError", "No such file or directory (os error 2)", "delete", ObjectNotFound),
        ("FileNotFoundError", status(404, "NoSuchBucket"), "get", Unavailable),
        ("FileNotFoundError", status(404, "NoSuchBucket"), "put", Unavailable),
        ("FileNotFoundError", status(404, "ContainerNotFound"), "put", Unavailable),
        ("AlreadyExistsError", status(412), "create", ObjectExists),
        ("AlreadyExistsError", status(409, "BlobAlreadyExists"), "create", ObjectExists),
        ("AlreadyExistsError", status(409, "BlobAlreadyExists"), "put", Ambiguous),
        ("AlreadyExistsError", "File exists (os error 17)", "create", ObjectExists),
        ("AlreadyExistsError", status(409), "create", Ambiguous),
        ("AlreadyExistsError", status(409), "put", Ambiguous),
        ("PermissionDeniedError", status(403), "get", PermissionDenied),
        ("UnauthenticatedError", status(401), "put", PermissionDenied),
        ("PreconditionError", status(412), "get", PreconditionFailed),
        ("GenericError", status(403, "RequestTimeTooSkewed"), "put", PermissionDenied),
        ("GenericError", status(503, "SlowDown"), "put", Throttled),
        ("GenericError", status(503), "get", Throttled),
        ("GenericError", status(429), "create", Throttled),
        ("GenericError", status(500), "put", Ambiguous),
        ("GenericError", status(502), "create", Ambiguous),
        ("GenericError", status(504), "get_range", Unavailable),
        ("GenericError", status(400, "RequestTimeout"), "part", Ambiguous),
        ("GenericError", status(400, "EntityTooSmall"), "complete", PartSizeTooSmall),
        ("GenericError", status(400, "InvalidPart"), "complete", ObjectStoreError),
        ("GenericError", status(507), "put", Ambiguous),
        ("GenericError", status(416, "InvalidRange"), "get_range", RangeOutOfBounds),
        ("GenericError", "Generic InMemory error: Invalid range: Wanted range starting at 20, but"
         " object was only 5 bytes long", "get_range", RangeOutOfBounds),
        ("GenericError", "Requested range was invalid\n\nDebug source: StartTooLarge",
         "get_range", RangeOutOfBounds),
        ("GenericError", "Received non-partial response when range requested", "get_range",
         WeakStore),
        ("GenericError", "HTTP error: error sending request\n\nDebug source:\n ConnectError(tcp"
         " connect error)", "put", Unavailable),
        ("GenericError", "HTTP error: error sending request\n\nDebug source: TimedOut", "put",
         Ambiguous),
        ("GenericError", "HTTP error: error decoding response body", "get", Unavailable),
        ("OSError", "something else", "create", Ambiguous),
        ("OSError", "something else", "list", Unavailable),
    ],
)  # fmt: skip
def test_every_text_has_its_meaning(
    name: str, text: str, op: str, family: type[ObjectStoreError]
) -> None:
    error = translated(raised(name, text), op=op, key="k")
    assert type(error) is family
    assert (error.op, error.key) == (op, "k")
    assert "\n" not in str(error)
    assert "Debug" not in str(error)


def test_the_status_is_kept_and_a_long_text_is_cut() -> None:
    error = translated(raised("GenericError", status(500, "x" * 1000)), op="put", key="k")
    assert error.status == 500
    assert len(str(error)) < 600
