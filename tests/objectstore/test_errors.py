import inspect

from borzoi.model.errors import StorageFailure
from borzoi.objectstore import errors
from borzoi.objectstore.errors import Ambiguous, ObjectStoreError, Throttled, Unavailable

CLASSES = [
    value
    for value in vars(errors).values()
    if inspect.isclass(value) and issubclass(value, ObjectStoreError)
]


def test_an_error_says_what_was_asked_and_of_which_key() -> None:
    error = Throttled("slow down", op="put", key="a/b", status=503)
    assert str(error) == "put a/b: slow down"
    assert (error.op, error.key, error.status, error.retriable) == ("put", "a/b", 503, True)
    assert isinstance(error, StorageFailure)


def test_only_what_may_succeed_later_is_retriable() -> None:
    assert {one for one in CLASSES if one.retriable} == {Throttled, Unavailable, Ambiguous}
    assert len(CLASSES) == 15
