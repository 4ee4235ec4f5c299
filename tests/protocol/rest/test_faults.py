from http import HTTPStatus

import pytest

from borzoi.model.errors import InvalidRequest
from borzoi.protocol.rest import faults
from borzoi.protocol.rest.faults import HttpFault


@pytest.mark.parametrize(
    ("fault", "status", "sentence"),
    [
        (faults.unknown_path(), HTTPStatus.NOT_FOUND, ""),
        (faults.unknown_method(("GET", "HEAD")), HTTPStatus.METHOD_NOT_ALLOWED, ""),
        (faults.bad_path("x"), HTTPStatus.BAD_REQUEST, "Invalid URL: x"),
        (faults.bad_query("x"), HTTPStatus.BAD_REQUEST, "Invalid query: x"),
        (faults.bad_syntax("x"), HTTPStatus.BAD_REQUEST, "The body is not JSON: x"),
        (
            faults.bad_shape("x"),
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "The body has the wrong shape: x",
        ),
        (
            faults.bad_content_type(),
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "The body needs `Content-Type: application/json`",
        ),
    ],
    ids=lambda part: part.name if isinstance(part, HTTPStatus) else "",
)
def test_a_fault_has_a_status_and_a_sentence(
    fault: HttpFault, status: HTTPStatus, sentence: str
) -> None:
    assert isinstance(fault, InvalidRequest)
    assert fault.status is status
    assert str(fault) == sentence


def test_a_wrong_method_is_told_the_right_ones() -> None:
    assert faults.unknown_method(("GET", "HEAD")).allow == ("GET", "HEAD")
    assert faults.unknown_path().allow == ()
