"""The texts are those of obstore 0.12.1; `test_obstore_adapter.py` sees that they still are."""

import pytest

from borzoi.objectstore import errors
from borzoi.objectstore.translating import translated


def raised(name: str, text: str) -> Exception:
    return type(name, (Exception,), {})(text)


def status(code: int, rest: str = "") -> str:
    return f"Generic S3 error: in 2ms - Server returned non-2xx status code: {code} X: {rest}"


NO_SUCH_FILE = "No such file or directory (os error 2)"


@pytest.mark.parametrize(
    ("name", "text", "op", "family"),
    [
        ("FileNotFoundError", status(404, "NoSuchKey"), "get", errors.ObjectNotFound),
        ("FileNotFoundError", NO_SUCH_FILE, "delete", errors.ObjectNotFound),
        ("FileNotFoundError", status(404, "NoSuchBucket"), "get", errors.Unavailable),
        ("FileNotFoundError", status(404, "NoSuchBucket"), "put", errors.Unavailable),
        ("FileNotFoundError", status(404, "ContainerNotFound"), "put", errors.Unavailable),
        ("AlreadyExistsError", status(412), "create", errors.ObjectExists),
        ("AlreadyExistsError", status(409, "BlobAlreadyExists"), "create", errors.ObjectExists),
        ("AlreadyExistsError", status(409, "BlobAlreadyExists"), "put", errors.Ambiguous),
        ("AlreadyExistsError", "File exists (os error 17)", "create", errors.ObjectExists),
        ("AlreadyExistsError", status(409), "create", errors.Ambiguous),
        ("AlreadyExistsError", status(409), "put", errors.Ambiguous),
        ("PermissionDeniedError", status(403), "get", errors.PermissionDenied),
        ("UnauthenticatedError", status(401), "put", errors.PermissionDenied),
        ("PreconditionError", status(412), "get", errors.PreconditionFailed),
        ("GenericError", status(403, "RequestTimeTooSkewed"), "put", errors.PermissionDenied),
        ("GenericError", status(503, "SlowDown"), "put", errors.Throttled),
        ("GenericError", status(503), "get", errors.Throttled),
        ("GenericError", status(429), "create", errors.Throttled),
        ("GenericError", status(500), "put", errors.Ambiguous),
        ("GenericError", status(502), "create", errors.Ambiguous),
        ("GenericError", status(504), "get_range", errors.Unavailable),
        ("GenericError", status(400, "RequestTimeout"), "part", errors.Ambiguous),
        ("GenericError", status(400, "EntityTooSmall"), "complete", errors.PartSizeTooSmall),
        ("GenericError", status(400, "InvalidPart"), "complete", errors.ObjectStoreError),
        ("GenericError", status(507), "put", errors.Ambiguous),
        ("GenericError", status(416, "InvalidRange"), "get_range", errors.RangeOutOfBounds),
        ("GenericError", "Generic InMemory error: Invalid range: Wanted range starting at 20, but"
         " object was only 5 bytes long", "get_range", errors.RangeOutOfBounds),
        ("GenericError", "Requested range was invalid\n\nDebug source: StartTooLarge",
         "get_range", errors.RangeOutOfBounds),
        ("GenericError", "Received non-partial response when range requested", "get_range",
         errors.WeakStore),
        ("GenericError", "HTTP error: error sending request\n\nDebug source:\n ConnectError(tcp"
         " connect error)", "put", errors.Unavailable),
        ("GenericError", "HTTP error: error sending request\n\nDebug source: TimedOut", "put",
         errors.Ambiguous),
        ("GenericError", "HTTP error: error decoding response body", "get", errors.Unavailable),
        ("OSError", "something else", "create", errors.Ambiguous),
        ("OSError", "something else", "list", errors.Unavailable),
    ],
)  # fmt: skip
def test_every_text_has_its_meaning(
    name: str, text: str, op: str, family: type[errors.ObjectStoreError]
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
