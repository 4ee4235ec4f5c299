from dataclasses import dataclass
from enum import Enum

import msgspec
import pytest

from borzoi.cli.documents import found, record_of
from borzoi.cli.faults import CommandFailed, Exit


class Mode(Enum):
    QUICK = 1


class Inner(msgspec.Struct):
    mode: Mode


@dataclass
class Outer:
    inner: Inner
    many: tuple[Inner, ...]
    by_id: dict[int, Inner]
    name: str


def test_answers_become_plain_documents():
    inner = Inner(Mode.QUICK)
    assert record_of(Outer(inner, (inner,), {3: inner}, "x")) == {
        "inner": {"mode": "quick"},
        "many": [{"mode": "quick"}],
        "by_id": {3: {"mode": "quick"}},
        "name": "x",
    }


def test_what_is_not_there_is_a_failure():
    assert found(0, "nothing") == 0
    with pytest.raises(CommandFailed, match="there is no stream 7") as caught:
        found(None, "there is no stream 7")
    assert caught.value.exit_code == Exit.NOT_FOUND
