"""Messages of the accelerator compared with those in Python, which say what a message can do."""

import copy
import gc
import pickle
import subprocess
import sys
from operator import attrgetter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.accelerators import needs_accelerator

from borzoi.client import plain_messages as plain
from borzoi.client.messages import Message, ValueMessage, encoded_headers

pytestmark = needs_accelerator

FIELDS = plain.Message.__struct_fields__
values_of = attrgetter(*FIELDS)

u64 = st.integers(0, 2**64 - 1)
fields = st.tuples(
    u64,
    st.binary(min_size=16, max_size=16),
    u64,
    st.integers(0, 2**52),
    st.integers(0, 2**52),
    st.integers(0, 2**32 - 1),
    st.binary(max_size=100),
    st.just(b"") | st.integers(0, 9).map(lambda number: encoded_headers({"k": number})),
)
ONE: tuple[Any, ...] = (2**64 - 1, bytes(range(16)), 7, 8, 9, 3, b'{"a": 1}', b"")


@given(fields)
def test_they_show_the_same(given_fields: tuple[Any, ...]) -> None:
    compact, slow = Message(*given_fields), plain.Message(*given_fields)
    assert type(compact) is not type(slow)
    assert values_of(compact) == values_of(slow) == given_fields
    assert repr(compact) == repr(slow)
    for name in ("id", "time", "origin_time", "headers", "typed_headers"):
        assert getattr(compact, name) == getattr(slow, name)
    assert msgspec.json.encode(compact) == msgspec.json.encode(slow)
    assert msgspec.to_builtins(compact) == msgspec.to_builtins(slow)


@given(fields, fields)
def test_they_are_equal_by_their_fields(one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    for kind in (Message, plain.Message):
        assert (kind(*one) == kind(*other)) == (one == other)
        assert kind(*one) == kind(*one)
        assert hash(kind(*one)) == hash(kind(*one))
    assert Message(*one) != plain.Message(*one)


def test_they_are_made_of_named_fields_too() -> None:
    assert Message(**dict(zip(FIELDS, ONE, strict=True))) == Message(*ONE)
    match Message(*ONE):
        case Message(_, _, offset):
            assert offset == 7


def test_they_are_copied_and_pickled() -> None:
    message = Message(*ONE)
    valued = ValueMessage.of(message, {"a": 1})
    for each in (message, valued):
        assert copy.copy(each) == copy.deepcopy(each) == pickle.loads(pickle.dumps(each)) == each
        assert type(pickle.loads(pickle.dumps(each))) is type(each)


def test_a_process_without_the_accelerator_reads_what_was_pickled_with_it() -> None:
    program = "import pickle, sys; print(pickle.load(sys.stdin.buffer).json())"
    said = subprocess.run(
        [sys.executable, "-c", program],
        input=pickle.dumps(Message(*ONE)),
        env={"BORZOI_ACCELERATOR": "off"},
        capture_output=True,
        check=True,
    )
    assert said.stdout == b"{'a': 1}\n"


def test_they_cannot_be_changed() -> None:
    for message in (Message(*ONE), ValueMessage.of(Message(*ONE), 5)):
        for name in (*FIELDS, "id", "value", "other"):
            with pytest.raises(AttributeError):
                setattr(message, name, 1)
        assert message.__replace__(offset=70).offset == 70
        assert message.offset == 7


def test_a_value_comes_with_the_message() -> None:
    message = Message(*ONE)
    valued = ValueMessage.of(message, {"a": 1})
    slow = plain.ValueMessage.of(plain.Message(*ONE), {"a": 1})
    named: dict[str, Any] = dict(zip(FIELDS, ONE, strict=True)) | {"value": {"a": 1}}
    assert isinstance(valued, Message)
    assert (valued.value, valued.payload) == (slow.value, slow.payload)
    assert valued == ValueMessage(*[*ONE, {"a": 1}]) == ValueMessage(**named)
    assert valued != message
    assert valued != ValueMessage.of(message, {"a": 2})
    assert msgspec.json.encode(valued) == msgspec.json.encode(slow)
    with pytest.raises(TypeError):
        ValueMessage(*ONE)


def test_a_value_that_refers_to_its_message_is_collected() -> None:
    class Value:
        message: Any

    value = Value()
    value.message = ValueMessage.of(Message(*ONE), value)
    before = len([each for each in gc.get_objects() if isinstance(each, Value)])
    del value
    gc.collect()
    assert len([each for each in gc.get_objects() if isinstance(each, Value)]) == before - 1


@pytest.mark.parametrize(
    ("at", "wrong"),
    [(0, -1), (0, 2**64), (1, bytes(15)), (1, "x"), (2, None), (5, 1.5), (6, "text"), (7, None)],
)
def test_fields_of_another_kind_are_refused(at: int, wrong: object) -> None:
    changed = [*ONE]
    changed[at] = wrong
    with pytest.raises((TypeError, ValueError, OverflowError)):
        Message(*changed)


def test_the_garbage_collector_need_not_know_them() -> None:
    assert not gc.is_tracked(Message(*ONE))
