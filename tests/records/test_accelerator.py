"""The accelerator against the Python path, which is its oracle."""

import gc
import os
import random
import sys
from array import array
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.accelerators import (
    first_disagreement,
    is_joined_alike,
    is_judged_alike,
    is_split_alike,
    needs_accelerator,
    numbered_ids,
    said_of,
    without_accelerator,
)
from tests.support.interpreter import run_python
from tests.support.record_strategies import Sent, sent, sent_batches, stored
from xxhash import xxh3_64_intdigest

from borzoi.listeners.binary import CHECKED_AT_ONCE_MAX
from borzoi.model.limits import PAYLOAD_BYTES_MAX, USER_HEADERS_BYTES_MAX
from borzoi.records.accelerator import ACCELERATOR, FUNCTIONS, INTERFACE, Native, load
from borzoi.records.batch import SMALL, receive, stamp, walk
from borzoi.records.fresh_ids import BLOCK, FreshIds
from borzoi.records.header import MessageHeader, pack_header
from borzoi.records.message import Message, encode_messages

LENGTHS = [*range(300), *range(1000, 1100), *range(2000, 2180), 4096, 65_537, 1_000_003]


@pytest.fixture(scope="module")
def native() -> Native:
    if ACCELERATOR.native is None:
        pytest.skip(f"the accelerator is {ACCELERATOR.description}")
    return ACCELERATOR.native


def both_say_the_same(request: Sent) -> None:
    asked = (request.messages, request.indexes, request.messages_count)
    accelerated = said_of(asked)
    with without_accelerator():
        assert said_of(asked) == accelerated
    assert is_judged_alike(asked)


# ---- whether it is there ------------------------------------------------------------------------


def test_what_was_found_is_said() -> None:
    assert ACCELERATOR.description.startswith("off: " if ACCELERATOR.native is None else "on, with")


def test_a_module_that_was_not_built_is_done_without() -> None:
    assert load("borzoi.records.absent") == (
        None,
        "off: it was not built; install a C compiler and install borzoi again",
    )


WHOLE = "INSTRUCTIONS = 'plain'\n" + "".join(f"{name} = print\n" for name in FUNCTIONS)


@pytest.mark.parametrize(
    ("name", "text", "description"),
    [
        (
            "found_one",
            f"INTERFACE = {INTERFACE}\n{WHOLE}",
            "on, with plain instructions",
        ),
        ("older_functions", WHOLE, "off: it was built from older sources; install borzoi again"),
        (
            "older_one",
            f"INTERFACE = {INTERFACE}\nINSTRUCTIONS = 'plain'",
            "off: it was built from older sources; install borzoi again",
        ),
        ("refusing_one", "raise ImportError('it has its reasons')", "off: it has its reasons"),
    ],
)
def test_a_module_is_there_unless_it_refuses(
    name: str, text: str, description: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    assert load(name).description == description


def described(choice: str) -> str:
    """What a process finds in which the variable has this value."""
    program = "from borzoi.records.accelerator import ACCELERATOR; print(ACCELERATOR.description)"
    environment = os.environ | {"BORZOI_ACCELERATOR": choice}
    return run_python("-c", program, env=environment, check=True).stdout.strip()


@needs_accelerator
@pytest.mark.parametrize(
    ("choice", "description"),
    [
        ("off", "off: it is switched off (BORZOI_ACCELERATOR=off)"),
        ("portable", "on, with portable instructions"),
        ("fast", "off: BORZOI_ACCELERATOR is on, portable or off, not 'fast'"),
    ],
)
def test_a_variable_chooses(choice: str, description: str) -> None:
    assert described(choice) == description


@needs_accelerator
def test_without_vector_instructions_the_checksums_are_the_same() -> None:
    program = (
        "from borzoi.records.accelerator import native; from xxhash import xxh3_64_intdigest as x\n"
        f"assert all(native.checksum(b) == x(b) for n in {LENGTHS} for b in [bytes(range(256)) * "
        "(n // 256 + 1)] for b in [b[:n]])"
    )
    run_python("-c", program, env=os.environ | {"BORZOI_ACCELERATOR": "portable"}, check=True)


# ---- the same as in Python ----------------------------------------------------------------------


def test_a_checksum_of_any_length_is_that_of_the_library(native: Native) -> None:
    drawn = np.random.default_rng(1).bytes(max(LENGTHS) + 1)
    for length in LENGTHS:
        for at in (0, 1):
            hashed = memoryview(drawn)[at : at + length]
            assert native.checksum(hashed) == xxh3_64_intdigest(hashed), length


@given(st.binary(max_size=3000))
def test_a_checksum_is_that_of_the_library(native: Native, hashed: bytes) -> None:
    assert native.checksum(hashed) == xxh3_64_intdigest(hashed)


def test_a_few_ends_are_what_python_calls_few(native: Native) -> None:
    assert native.FEW == SMALL


@needs_accelerator
@given(sent_batches())
def test_what_a_producer_makes_gets_the_same_bytes(request: Sent) -> None:
    both_say_the_same(request)


@needs_accelerator
@given(st.binary(max_size=400), st.binary(max_size=80), st.integers(0, 2**32 - 1))
def test_garbage_gets_the_same_faults(messages: bytes, indexes: bytes, count: int) -> None:
    for claimed in (count, len(indexes) // 16):
        both_say_the_same(Sent(indexes, messages, claimed))


@needs_accelerator
@given(st.binary(max_size=200))
def test_garbage_behind_headers_gets_the_same_faults(garbage: bytes) -> None:
    for count in (1, SMALL):
        both_say_the_same(Sent(bytes(16 * count), bytes(64 * count) + garbage, count))


@needs_accelerator
@pytest.mark.parametrize("user_headers", [USER_HEADERS_BYTES_MAX, USER_HEADERS_BYTES_MAX + 1])
@pytest.mark.parametrize("payload", [0, PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_MAX + 1])
def test_the_largest_lengths_are_the_same(user_headers: int, payload: int) -> None:
    header = pack_header(MessageHeader(0, 0, 0, 0, 0, user_headers, payload))
    messages = header + bytes(user_headers + payload)
    assert is_judged_alike((messages, bytes(16), 1))


@needs_accelerator
@pytest.mark.parametrize("count", [CHECKED_AT_ONCE_MAX, CHECKED_AT_ONCE_MAX + 1])
def test_sends_of_very_many_messages_are_left_to_python(native: Native, count: int) -> None:
    indexes, messages = encode_messages([Message(b"")] * count)
    payload = (4).to_bytes(4, "little") + count.to_bytes(4, "little") + indexes + messages
    split = native.split(memoryview(payload))
    assert (split is None) == (count > CHECKED_AT_ONCE_MAX)
    assert is_split_alike((bytes(messages), bytes(indexes), count))


@needs_accelerator
@given(sent_batches())
def test_what_a_producer_repeats_is_joined_as_it_is_split(request: Sent) -> None:
    assert is_joined_alike((request.messages, request.indexes, request.messages_count))


@pytest.mark.parametrize(
    ("messages", "ends"), [(b"", []), (bytearray(), ()), (None, []), (bytearray(), None)]
)
def test_messages_join_only_what_can_grow(native: Native, messages: Any, ends: Any) -> None:
    with pytest.raises(TypeError, match="join a bytearray"):
        native.join(memoryview(b""), b"", messages, ends)


@needs_accelerator
@pytest.mark.parametrize("seed", [1, 2])
def test_damaged_requests_are_seen_alike(seed: int) -> None:
    assert first_disagreement(1000, seed) is None


@needs_accelerator
@pytest.mark.deep
@pytest.mark.parametrize("seed", range(1000, 1010))
def test_ten_million_damaged_requests_are_seen_alike(seed: int) -> None:
    """A million for each seed; `BORZOI_DAMAGED_REQUESTS` is another number for all of them."""
    count = int(os.environ.get("BORZOI_DAMAGED_REQUESTS", "10_000_000"))
    assert first_disagreement(count // 10, seed) is None


@needs_accelerator
@given(
    st.integers(0, 10**6),
    st.lists(st.lists(st.sampled_from([0, 0, 0, 5]), min_size=1, max_size=150), max_size=4),
    st.integers(0, 200),
)
def test_batches_are_stamped_with_the_same_new_ids(
    seed: int, batches: list[list[int]], left: int
) -> None:
    """Drawn while it stamps, or all at once; `left` of the first block are left for them."""

    def stamped() -> list[bytes]:
        new_ids = FreshIds(random.Random(seed).randbytes)
        new_ids(BLOCK - left)
        found = []
        for ids in batches:
            batch = sent([Message(b"x" * (seed % 300), each) for each in ids]).received()
            stamp(batch, base_offset=7, timestamp=9, new_ids=new_ids)
            found.append(bytes(batch.messages))
        return [*found, new_ids(1)]

    accelerated = stamped()
    with without_accelerator():
        assert stamped() == accelerated


# ---- what only it can get wrong -----------------------------------------------------------------


@pytest.mark.parametrize(
    "ends", [[63], [65, 64], [64, 127], [300], [2**32 - 1], list(range(64, 640, 64)), [64, 0]]
)
def test_ends_that_are_not_in_the_buffer_are_refused(native: Native, ends: list[int]) -> None:
    messages = memoryview(bytearray(200))
    for given_ends in (ends, np.array(ends, np.uint32)):
        with pytest.raises(ValueError, match="does not lie in the buffer"):
            native.stamp(messages, given_ends, 0, 0, numbered_ids(), None)
        with pytest.raises(ValueError, match="does not lie in the buffer"):
            native.seal(messages, given_ends)
        sealed = memoryview(bytearray(messages))
        start = 0
        for end in ends:
            if start + 64 <= end <= len(sealed):
                native.seal(sealed[start:end], [end - start])
                start = end
        with pytest.raises(ValueError, match="does not lie in the buffer"):
            native.verify(sealed, given_ends)


@pytest.mark.parametrize("ends", [[-1], [2**32], [2**64], ["64"], None, b"1234", np.zeros(2)])
def test_ends_of_another_kind_are_refused(native: Native, ends: list[int]) -> None:
    messages = memoryview(bytearray(200))
    with pytest.raises((TypeError, OverflowError)):
        native.stamp(messages, ends, 0, 0, numbered_ids(), None)
    with pytest.raises((TypeError, OverflowError)):
        native.verify(messages, ends)
    with pytest.raises((TypeError, OverflowError)):
        native.entries(ends, 0, 0, 0)


@pytest.mark.parametrize(
    ("payloads", "size"),
    [
        ([b"abc"], 3),
        ([b"abc", b"def"], 3),
        ([b"", b""], 0),
        ([b"abc", b"defg"], None),
        ([b"abc", "def"], None),
        ([bytearray(b"abc")], None),
        ([], None),
        ((b"abc", b"def"), None),
        (None, None),
    ],
)
def test_the_size_that_all_payloads_have(native: Native, payloads: Any, size: int | None) -> None:
    assert native.equal_size(payloads) == size


def test_arguments_of_another_kind_are_refused(native: Native) -> None:
    for name, count in (
        ("check", 3),
        ("split", 1),
        ("walk", 1),
        ("prefix", 1),
        ("stamp", 6),
        ("seal", 2),
        ("verify", 2),
        ("entries", 4),
        ("uuids", 2),
        ("checksum", 1),
        ("count", 1),
        ("messages", 2),
        ("json_lines", 3),
        ("json_messages", 3),
        ("decimal_ids", 1),
        ("Message", 8),
    ):
        function = getattr(native, name)
        for given_count in (0, count, count + 1):
            with pytest.raises(TypeError):
                function(*[None] * given_count)


def test_bytes_that_cannot_be_changed_are_not(native: Native) -> None:
    generator: Any = memoryview(bytes(24))
    for attempt in (
        lambda: native.stamp(memoryview(bytes(64)), [64], 0, 0, numbered_ids(), None),
        lambda: native.seal(memoryview(bytes(64)), [64]),
        lambda: native.uuids(generator, 1),
    ):
        with pytest.raises((BufferError, ValueError)):
            attempt()


@pytest.mark.parametrize("start", [-1, 1, 65, 2**62])
def test_lines_of_messages_outside_of_the_buffer_are_refused(native: Native, start: int) -> None:
    message = memoryview(pack_header(MessageHeader(0, 0, 0, 0, 0, 0, 0)))
    if start == 1:  # the header would not be whole
        assert native.json_lines(message, np.array([start]), 0) is None
        return
    with pytest.raises(ValueError, match="does not lie in the buffer"):
        native.json_lines(message, np.array([start]), 0)


@given(st.lists(st.integers(0, 2**128 - 1) | st.sampled_from([0, 9, 10**9, 10**18 - 1, 2**64])))
def test_ids_are_written_as_decimal_numbers(native: Native, ids: list[int]) -> None:
    digits, bounds = native.decimal_ids(b"".join(each.to_bytes(16, "little") for each in ids))
    at = np.frombuffer(bounds, np.int32).tolist()
    assert [int(digits[low:high]) for low, high in pairwise(at)] == ids
    assert digits.decode() == "".join(map(str, ids))


@pytest.mark.parametrize("starts", [np.zeros(2, np.int32), b"12345678", None])
def test_starts_of_another_kind_are_refused(native: Native, starts) -> None:
    with pytest.raises(TypeError):
        native.json_lines(memoryview(bytes(64)), starts, 0)


@needs_accelerator
@pytest.mark.parametrize("ids", [b"", bytes(15), bytes(17), bytes(32)])
def test_another_number_of_ids_is_refused(ids: bytes) -> None:
    batch = sent([Message(b"x")]).received()
    with pytest.raises(ValueError, match="1 ids have 16 bytes"):
        stamp(batch, base_offset=0, timestamp=0, new_ids=lambda _: ids)


@needs_accelerator
def test_a_fault_of_the_maker_of_ids_is_passed_on() -> None:
    batch = sent([Message(b"x")] * 9).received()
    with pytest.raises(ZeroDivisionError):
        stamp(batch, base_offset=0, timestamp=0, new_ids=lambda count: bytes(count // 0))


@needs_accelerator
def test_a_fault_of_the_entropy_is_passed_on_and_the_generator_stays_sound() -> None:
    def entropy(count: int) -> bytes:
        raise OSError("none today")

    new_ids = FreshIds(entropy)
    batch = sent([Message(b"x")] * 9).received()
    with pytest.raises(OSError, match="none today"):
        stamp(batch, base_offset=0, timestamp=0, new_ids=new_ids)
    assert new_ids.generator[2] == BLOCK


@pytest.mark.parametrize("size", [0, 16, 23, 25, 32])
def test_a_generator_of_another_size_is_refused(native: Native, size: int) -> None:
    for attempt in (
        lambda: native.stamp(
            memoryview(bytearray(64)), [64], 0, 0, numbered_ids(), array("B", bytes(size))
        ),
        lambda: native.uuids(array("B", bytes(size)), 1),
    ):
        with pytest.raises(ValueError, match="has 24 bytes"):
            attempt()


def test_a_generator_that_says_more_than_a_block_is_used_up(native: Native) -> None:
    batch = sent([Message(b"x")]).received()
    generator = array("Q", (1, 2, 2**64 - 1))
    asked: list[int] = []

    def new_ids(count: int) -> bytes:
        asked.append(count)
        return b"n" * 16 * count

    native.stamp(batch.messages, [len(batch.messages)], 0, 0, new_ids, generator)
    assert (asked, bytes(batch.messages[8:24])) == ([1], b"n" * 16)
    batch = sent([Message(b"x")]).received()
    with pytest.raises(ValueError, match="a new id is zero"):
        native.stamp(batch.messages, [len(batch.messages)], 0, 0, bytes_of_zero, generator)


def bytes_of_zero(count: int) -> bytes:
    return bytes(16 * count)


@needs_accelerator
def test_ids_that_are_taken_away_meanwhile_are_not_made_up() -> None:
    """The messages lie in memory that others may write; the ids asked for are all there is."""
    batch = sent([Message(b"x", 5), Message(b"y")]).received()

    def new_ids(count: int) -> bytes:
        batch.messages[8:24] = bytes(16)
        return bytes(16 * count)

    with pytest.raises(ValueError, match="does not lie in the buffer"):
        stamp(batch, base_offset=0, timestamp=0, new_ids=new_ids)


@needs_accelerator
def test_nothing_is_kept(native: Native) -> None:
    """Neither the buffers nor what was made of them."""
    request = sent([Message(b"x" * 500)] * 50)
    faulty = Sent(request.indexes[:-16] + bytes(15) + b"1", request.messages, 50)
    refused = (faulty.messages, faulty.indexes, 50)

    def use(times: int) -> int:
        for _ in range(times):
            batch = stored(request)
            walk(batch.messages)
            batch.messages.release()
            said_of(refused)
            receive(memoryview(request.messages), memoryview(request.indexes), 50)
            for message in native.messages(memoryview(request.messages), 3):
                assert message.id_bytes == bytes(16)
            next(native.messages(memoryview(request.messages), 3))
        gc.collect()
        return sys.getallocatedblocks()

    before = use(20)  # what is imported or cached at the first use is there then
    assert use(200) - before < 200
