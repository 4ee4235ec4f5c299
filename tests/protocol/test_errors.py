"""The table of statuses is complete in both directions."""

import ast
import inspect
from http import HTTPStatus
from pathlib import Path

import pytest

from borzoi.model import errors as faults
from borzoi.model.errors import (
    AccessDenied,
    BorzoiError,
    ConnectionLost,
    DiskFull,
    InvalidBatch,
    LimitReached,
    NotFound,
    PartitionDeleted,
    PartitionNotFound,
    ServerError,
    StorageFailure,
    StreamNotFound,
)
from borzoi.protocol.errors import CATCH_ALL, ERRORS, ErrorRow, code_of, error_of, row_of

CODES_OF_THE_PROTOCOL = 223

CLASSES = {
    name: value
    for name, value in vars(faults).items()
    if inspect.isclass(value) and issubclass(value, BorzoiError)
}
FAMILIES = {base.__name__ for error in CLASSES.values() for base in error.__bases__}
#: Told to clients as what they are of one more specific kind: its code is theirs.
KINDS_OF_OTHERS = {PartitionDeleted, DiskFull}
CONCRETE = {name: error for name, error in CLASSES.items() if name not in FAMILIES}
WITH_A_ROW = {row.error for row in ERRORS if row.error is not ServerError}
SOURCE = Path(inspect.getfile(faults)).parent.parent


def test_what_was_deleted_on_the_way_is_not_there_rather_than_a_failed_disk() -> None:
    assert code_of(PartitionDeleted("")) == code_of(PartitionNotFound("")) == 3007


def test_every_code_of_the_protocol_has_one_row(capsys: pytest.CaptureFixture[str]) -> None:
    codes = [row.code for row in ERRORS]
    with capsys.disabled():
        print(f" {len(set(codes))} of {CODES_OF_THE_PROTOCOL} codes", end=" ")
    assert len(codes) == len(set(codes)) == CODES_OF_THE_PROTOCOL
    assert codes == sorted(codes)
    assert len({row.name for row in ERRORS}) == CODES_OF_THE_PROTOCOL


def test_every_concrete_exception_has_one_code_and_no_two_share_it() -> None:
    missing = {error for error in CONCRETE.values() if error is not ServerError} - WITH_A_ROW
    assert missing == KINDS_OF_OTHERS
    assert len(WITH_A_ROW) == len([row for row in ERRORS if row.error is not ServerError])


def test_every_exception_of_the_table_belongs_to_the_tree_of_the_model() -> None:
    assert {row.error.__module__ for row in ERRORS} == {faults.__name__}


@pytest.mark.parametrize("row", [row for row in ERRORS if row.error is not ServerError], ids=str)
def test_an_exception_and_its_number_are_two_names_of_one_thing(row: ErrorRow) -> None:
    error = error_of(row.code, "told so")
    assert type(error) is row.error
    assert str(error) == "told so"
    assert code_of(error) == row.code


@pytest.mark.parametrize("row", [row for row in ERRORS if row.error is ServerError], ids=str)
def test_a_number_without_a_class_keeps_its_number(row: ErrorRow) -> None:
    error = error_of(row.code)
    assert type(error) is ServerError
    assert code_of(error) == row.code
    assert str(row.code) in str(error)


def test_an_unknown_number_is_kept_and_reads_like_the_catch_all() -> None:
    error = error_of(54321)
    assert isinstance(error, ServerError)
    assert error.code == code_of(error) == 54321
    assert row_of(54321) == row_of(CATCH_ALL)._replace(code=54321)


def test_an_exception_without_a_row_is_answered_like_its_nearest_ancestor() -> None:
    class StreamNotFoundToday(StreamNotFound): ...

    class Unheard(BorzoiError): ...

    assert code_of(StreamNotFoundToday()) == 1009
    assert code_of(Unheard()) == CATCH_ALL


@pytest.mark.parametrize(
    ("family", "code"),
    [(InvalidBatch, 4025), (LimitReached, 80), (ConnectionLost, 31), (StorageFailure, 13000)],
)
def test_a_family_that_is_raised_itself_has_a_number(family: type[BorzoiError], code: int) -> None:
    assert code_of(family()) == code
    assert type(error_of(code)) is family


def test_no_source_file_raises_a_family_that_has_no_number() -> None:
    families = {name for name in FAMILIES & CLASSES.keys() if CLASSES[name] not in WITH_A_ROW}
    assert {"BorzoiError", "NotFound", "AccessDenied"} <= families
    raised = [
        f"{path.relative_to(SOURCE)}:{node.lineno} raises {node.exc.func.id}"
        for path in SOURCE.rglob("*.py")
        for tree in [ast.parse(path.read_text())]
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Call)
        and isinstance(node.exc.func, ast.Name)
        and node.exc.func.id in families & names_from_the_model(tree)
    ]
    assert raised == []


def names_from_the_model(tree: ast.AST) -> set[str]:
    """Object stores have errors of their own, some with the names of families here."""
    return {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "borzoi.model.errors"
        for alias in node.names
    }


@pytest.mark.parametrize(
    ("status", "codes"),
    [
        (HTTPStatus.NOT_FOUND, {20, 100, 1009, 2010, 3007, 3021, 4000, 5000, 5003, 5006}),
        (HTTPStatus.UNAUTHORIZED, {40, 53, 77, 78}),
        (HTTPStatus.FORBIDDEN, {41}),
    ],
)
def test_http_answers_400_but_for_these(status: HTTPStatus, codes: set[int]) -> None:
    assert {row.code for row in ERRORS if row.http_status is status} == codes
    assert {row.http_status for row in ERRORS} == {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.NOT_FOUND,
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.FORBIDDEN,
    }


def test_the_fields_that_are_to_blame_are_named() -> None:
    assert {row.code: row.field for row in ERRORS if row.field} == {
        46: "username",
        51: "name",
        100: "client_id",
        1009: "stream_id",
        1012: "name",
        1013: "name",
        1014: "stream_id",
        2010: "topic_id",
        2013: "name",
        2014: "name",
        3007: "partition_id",
        4000: "segment_id",
        4100: "offset",
        5002: "consumer_group_id",
        5004: "name",
    }


def test_families_say_what_a_caller_would_do() -> None:
    assert isinstance(error_of(2010), NotFound)
    assert isinstance(error_of(41), AccessDenied)
    assert str(error_of(1013)) == "Invalid stream name"
