"""Every recorded HTTP exchange of a published server, as far as bytes can be judged without one.

A call becomes a request, or the fault that was recorded; a request becomes a call again that means
the same; an answer becomes a response and the same JSON again. What is meant to differ stands in
``tests/golden/differences.toml`` with its reason.
"""

import json
import tomllib
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from borzoi.model.errors import BorzoiError
from borzoi.protocol.errors import error_of, row_of
from borzoi.protocol.rest.calls import Match, allowed_methods, call_of, match
from borzoi.protocol.rest.documents import DOCUMENTS, decode_document, encode_document
from borzoi.protocol.rest.errors import error_answer, error_from, missing_answer
from borzoi.protocol.rest.faults import HttpFault
from borzoi.protocol.rest.routes import PUBLIC_PATHS

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
LINES = [json.loads(line) for line in (GOLDEN / "golden-http.jsonl").read_text().splitlines()]
CAPTURED = [
    line
    for line in map(json.loads, (GOLDEN / "golden-requests.jsonl").read_text().splitlines())
    if line["dialect"] == "http-json"
]
DIFFERENCES = {
    (each["scenario"], step): each
    for each in tomllib.loads((GOLDEN / "differences.toml").read_text())["http"]
    for step in each["steps"]
}
BODY_BYTES_MAX = 2_000_000
NOW = 1_700_000_000_000_000

#: What stands for a variable that was not saved.
VARIABLES = {"cid": "1601683480"}


def place(line: dict[str, Any]) -> str:
    return f"{line['scenario']}-{line['n']}"


def differs(line: dict[str, Any], part: str) -> bool:
    difference = DIFFERENCES.get((line["scenario"], line["n"]))
    return difference is not None and difference["part"] == part


def body_of(line: dict[str, Any]) -> bytes:
    if line.get("request_body_rle"):
        return b"".join(text.encode() * count for text, count in line["request_body_rle"])
    return (line["request_body"] or "").encode()


def filled(text: str) -> str:
    for name, value in VARIABLES.items():
        text = text.replace("{{" + name + "}}", value)
    return text


def matched(line: dict[str, Any]) -> tuple[Match, str]:
    path, _, query = filled(line["path"]).partition("?")
    return match(line["method"], path), query


def request_of(line: dict[str, Any]) -> Any:
    found, query = matched(line)
    return found.request(query, line["request_headers"].get("Content-Type"), body_of(line), now=NOW)


def document_of(line: dict[str, Any]) -> Any:
    """The JSON of an answer, or None for an answer that is something else."""
    if line["response_headers"].get("content-type") != "application/json":
        return None
    return json.loads(line["response_body"])


def is_refused_by_the_listener(line: dict[str, Any]) -> bool:
    """Tokens, preflights and sizes are checked before the meaning of a call."""
    status = line["response_status"]
    no_token = status == HTTPStatus.UNAUTHORIZED and not line["response_body"]
    too_large = status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    return no_token or too_large or line["method"] == "OPTIONS"


LISTENER = [line for line in LINES if is_refused_by_the_listener(line)]
HTTP_FAULTS = [
    line
    for line in LINES
    if line["response_status"] >= 400
    and document_of(line) is None
    and not is_refused_by_the_listener(line)
    and line["path"] != "/ui"
]
PROTOCOL_ERRORS = [
    line for line in LINES if line["response_status"] >= 400 and document_of(line) is not None
]
SUCCESSES = [
    line for line in LINES if line["response_status"] < 400 and not is_refused_by_the_listener(line)
]
UI = [line for line in LINES if line["path"] == "/ui"]


def test_every_line_is_judged_by_one_of_these_tests(capsys: pytest.CaptureFixture[str]) -> None:
    groups = [LISTENER, HTTP_FAULTS, PROTOCOL_ERRORS, SUCCESSES, UI]
    counts = [len(group) for group in groups]
    with capsys.disabled():
        print(f" {sum(counts)} of {len(LINES)} HTTP exchanges", end=" ")
    assert sum(counts) == len(LINES) == 385
    assert len({line["seq"] for group in groups for line in group}) == 385


def test_what_the_listener_refuses_needs_a_token_a_preflight_or_a_smaller_body() -> None:
    for line in LISTENER:
        if line["response_status"] == HTTPStatus.UNAUTHORIZED:
            assert line["path"] not in PUBLIC_PATHS
        elif line["method"] == "OPTIONS":
            assert ",".join(allowed_methods(line["path"])) == line["response_headers"]["allow"]
        else:
            assert len(body_of(line)) > BODY_BYTES_MAX


@pytest.mark.parametrize("line", HTTP_FAULTS, ids=place)
def test_a_call_that_is_no_request_is_refused_with_the_recorded_status(line: Any) -> None:
    if differs(line, "request"):
        assert request_of(line) is not None
        return
    with pytest.raises(HttpFault) as refused:
        request_of(line)
    answer = error_answer(refused.value)
    assert answer.status == DIFFERENCES.get((line["scenario"], line["n"]), {}).get(
        "status", line["response_status"]
    )
    assert bool(answer.body) == bool(line["response_body"])
    assert ",".join(answer.allow) == line["response_headers"].get("allow", "")
    assert isinstance(error_from(answer.status, answer.body), BorzoiError)


@pytest.mark.parametrize("line", SUCCESSES, ids=place)
def test_a_call_that_succeeded_is_a_request_and_the_request_is_the_same_call(line: Any) -> None:
    request = request_of(line)
    route = matched(line)[0].route
    assert isinstance(request, route.request)  # type: ignore[arg-type]
    assert route.status == line["response_status"]
    call = call_of(request)
    assert call.method == ("GET" if line["method"] == "HEAD" else line["method"])
    path, _, query = call.target.partition("?")
    content_type = None if call.body is None else "application/json"
    again = match(call.method, path).request(query, content_type, call.body or b"", now=NOW)
    assert again == request


@pytest.mark.parametrize("line", PROTOCOL_ERRORS, ids=place)
def test_an_error_of_the_protocol_has_the_recorded_body(line: Any) -> None:
    recorded = document_of(line)
    try:
        request = request_of(line)
    except HttpFault:
        raise
    except BorzoiError as error:
        answer = error_answer(error)
    else:
        # The shape is right, so a handler refused it: with which body, once it does?
        if recorded["code"] == "not_found":
            answer = missing_answer(request)
        else:
            answer = error_answer(error_of(recorded["id"], "in other words"), request)
    document = json.loads(answer.body)
    if differs(line, "reason"):
        assert document["reason"] != recorded["reason"]
        recorded["reason"] = document["reason"]
    assert answer.status == line["response_status"]
    assert document == recorded
    told = error_from(answer.status, answer.body)
    if recorded["code"] != "not_found":
        assert type(told) is row_of(recorded["id"]).error
    assert recorded["reason"] in str(told)


ANSWERED = [line for line in SUCCESSES if document_of(line) is not None]


@pytest.mark.parametrize("line", ANSWERED, ids=place)
def test_a_document_is_read_and_written_back_as_the_same_values(line: Any) -> None:
    answer = matched(line)[0].route.answer
    assert answer is not None
    assert answer in DOCUMENTS
    response = decode_document(answer, line["response_body"].encode())
    assert isinstance(response, answer)
    assert json.loads(encode_document(response)) == document_of(line)


def test_what_answers_without_a_document_is_a_text_an_archive_or_nothing() -> None:
    for line in SUCCESSES:
        if document_of(line) is not None or line["method"] == "HEAD":
            continue
        answer = matched(line)[0].route.answer
        content_type = line["response_headers"].get("content-type", "")
        expected = {"": None, "application/zip": bytes}.get(content_type, str)
        assert answer is expected, place(line)


def test_documents_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    kinds = {matched(line)[0].route.answer for line in ANSWERED}
    with capsys.disabled():
        print(f" {len(ANSWERED)} documents of {len(kinds)} kinds", end=" ")
    assert len(ANSWERED) == 100
    assert len(kinds) == 14


def test_every_difference_is_one_and_has_a_reason() -> None:
    known = {(line["scenario"], line["n"]) for line in LINES}
    assert DIFFERENCES.keys() <= known
    assert all(len(each["why"]) > 20 for each in DIFFERENCES.values())
    assert {each["part"] for each in DIFFERENCES.values()} <= {
        "request",
        "status",
        "reason",
        "document",
        "answer",
    }


def test_what_a_published_client_says_is_heard_and_would_be_said_alike(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for line in CAPTURED:
        found = match(line["method"], line["path"])
        body = bytes.fromhex(line["hex"])
        request = found.request(line["query"], line["content_type"], body, now=NOW)
        method, target, said = call_of(request)
        assert method == line["method"]
        assert target == line["path"] + (f"?{line['query']}" if line["query"] else "")
        assert without_nothing(json.loads(said or b"null")) == without_nothing(
            json.loads(body or b"null")
        )
    with capsys.disabled():
        print(f" {len(CAPTURED)} of 16 captured calls", end=" ")
    assert len(CAPTURED) == 16


def without_nothing(value: Any) -> Any:
    """The value without fields that equal their default."""
    if isinstance(value, list):
        return [without_nothing(each) for each in value]
    if isinstance(value, dict):
        return {name: without_nothing(each) for name, each in value.items() if each or each == 0}
    return value
