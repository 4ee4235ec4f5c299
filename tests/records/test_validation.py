"""What a client may send, against a reference that goes message by message and against records."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.golden import Exchange, read_exchanges
from tests.support.record_strategies import Sent, sent_batches

from borzoi.model import errors
from borzoi.records.batch import receive
from borzoi.records.header import MessageHeader, pack_header
from borzoi.records.layouts import LAYOUT_MESSAGES_MAX, Layouts
from borzoi.records.validation import check_all, check_each

pytestmark = pytest.mark.usefixtures("both_ways")

GOLDEN = Path(__file__).parents[1] / "golden"

FAULT_OF_STATUS = {
    4009: errors.InvalidMessagesCount,
    4017: errors.UserHeadersTooBig,
    4022: errors.PayloadTooBig,
    4031: errors.NonZeroIndexOffset,
    4032: errors.NonZeroIndexTimestamp,
    4033: errors.MissingIndex,
    4036: errors.InvalidMessagesSize,
    4100: errors.InvalidOffset,
    10011: errors.InvalidIndexPosition,
}


class Verdict(NamedTuple):
    ends: list[int]
    fault: type[errors.BorzoiError] | None


def number(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "little")


def reference(sent: Sent) -> Verdict:
    """The rules, one after the other, with nothing clever about them."""
    messages, indexes, count = sent.messages, sent.indexes, sent.messages_count
    ends: list[int] = []
    previous_offset, previous_position, total = 0, 0, 0
    for i in range(count):
        position = number(indexes, i * 16 + 4, 4)
        if number(indexes, i * 16, 4):
            return Verdict([], errors.NonZeroIndexOffset)
        if number(indexes, i * 16 + 8, 8):
            return Verdict([], errors.NonZeroIndexTimestamp)
        end = len(messages) if i == count - 1 else position
        message = messages[previous_position:end]
        if end > len(messages) or len(message) < 64:
            return Verdict([], errors.MissingIndex)
        user_headers, payload = number(message, 48, 4), number(message, 52, 4)
        if len(message) < 64 + user_headers + payload:
            return Verdict([], errors.MissingIndex)
        if payload > 64_000_000:
            return Verdict([], errors.PayloadTooBig)
        if user_headers > 100_000:
            return Verdict([], errors.UserHeadersTooBig)
        offset = number(message, 24, 8)
        if offset < previous_offset:
            return Verdict([], errors.InvalidOffset)
        if position < previous_position:
            return Verdict([], errors.InvalidIndexPosition)
        total += 64 + user_headers + payload
        ends.append(total)
        previous_offset, previous_position = offset, position
    if total != len(messages):
        return Verdict([], errors.InvalidMessagesSize)
    starts = [0, *ends[:-1]]
    if any(number(messages, start + 56, 8) for start in starts):
        return Verdict([], errors.InvalidReservedField)
    return Verdict(ends, None)


def verdict(check: Callable[[memoryview, memoryview, int], list[int]], sent: Sent) -> Verdict:
    try:
        ends = check(memoryview(sent.messages), memoryview(sent.indexes), sent.messages_count)
    except errors.BorzoiError as error:
        return Verdict([], type(error))
    return Verdict(ends, None)


def all_at_once(messages: memoryview, indexes: memoryview, count: int) -> list[int]:
    ends, layout = check_all(messages, indexes, count, Layouts())
    equal_size = 0 if layout is None else layout.size
    assert equal_size in (0, len(messages) // count)
    return [int(end) for end in ends]


def through_receive(messages: memoryview, indexes: memoryview, count: int) -> list[int]:
    return [int(end) for end in receive(messages, indexes, count).ends]


def assert_all_agree(sent: Sent) -> Verdict:
    expected = reference(sent)
    assert verdict(check_each, sent) == expected
    assert verdict(all_at_once, sent) == expected
    assert verdict(through_receive, sent) == expected
    return expected


# ---- what is sound ------------------------------------------------------------------------------


@given(sent_batches())
def test_every_way_to_check_accepts_what_a_producer_makes(sent: Sent) -> None:
    assert assert_all_agree(sent).fault is None


@given(sent_batches(), st.integers(0, 2**32 - 1))
def test_the_last_position_need_only_not_descend(sent: Sent, position: int) -> None:
    at = (sent.messages_count - 1) * 16 + 4
    indexes = sent.indexes[:at] + position.to_bytes(4, "little") + sent.indexes[at + 4 :]
    previous = number(sent.indexes, at - 16, 4) if sent.messages_count > 1 else 0
    fault = assert_all_agree(sent._replace(indexes=indexes)).fault
    assert fault is (errors.InvalidIndexPosition if position < previous else None)


@given(sent_batches(), st.lists(st.integers(0, 2**64 - 1)))
def test_offsets_a_client_set_may_ascend(sent: Sent, offsets: list[int]) -> None:
    messages = bytearray(sent.messages)
    starts = [0, *reference(sent).ends[:-1]]
    for start, offset in zip(reversed(starts), sorted(offsets, reverse=True), strict=False):
        messages[start + 24 : start + 32] = offset.to_bytes(8, "little")
    assert assert_all_agree(sent._replace(messages=bytes(messages))).fault is None


# ---- what is not --------------------------------------------------------------------------------


@given(sent_batches(), st.data())
def test_every_way_to_check_names_the_same_first_fault(sent: Sent, data: st.DataObject) -> None:
    """Changed at the bytes that are checked, in a few places at once."""
    indexes, messages = bytearray(sent.indexes), bytearray(sent.messages)
    starts = [0, *reference(sent).ends[:-1]]
    for _ in range(data.draw(st.integers(1, 3))):
        i = data.draw(st.integers(0, sent.messages_count - 1))
        if data.draw(st.booleans()):
            field, size = data.draw(st.sampled_from([(0, 4), (4, 4), (8, 8)]))
            target, at = indexes, i * 16 + field
        else:
            field, size = data.draw(st.sampled_from([(24, 8), (48, 4), (52, 4), (56, 8)]))
            target, at = messages, starts[i] + field
        old = int.from_bytes(target[at : at + size], "little")
        nearby = st.integers(old - 70, old + 70)
        new = data.draw(st.one_of(nearby, st.integers(0, 2 ** (8 * size) - 1)))
        target[at : at + size] = (new % 2 ** (8 * size)).to_bytes(size, "little")
    assert_all_agree(Sent(bytes(indexes), bytes(messages), sent.messages_count))


@given(sent_batches(), st.integers(0, 12_000), st.binary(max_size=130))
def test_a_section_of_another_length_is_refused(sent: Sent, kept: int, more: bytes) -> None:
    changed = sent._replace(messages=sent.messages[:kept] + more)
    fault = assert_all_agree(changed).fault
    assert (fault is None) == (changed.messages == sent.messages)


@given(st.binary(max_size=400), st.binary(min_size=16, max_size=400))
def test_garbage_is_refused_by_name_or_sound(messages: bytes, indexes: bytes) -> None:
    count = len(indexes) // 16
    assert_all_agree(Sent(indexes[: count * 16], messages, count))


@given(st.integers(1, 30), st.data())
def test_zeros_are_messages_where_they_fit(count: int, data: st.DataObject) -> None:
    """Only zeros and positions: all lengths and fields are valid, but there is too little space."""
    positions = data.draw(st.lists(st.integers(0, 40).map(lambda n: n * 32), min_size=count))
    entries = [bytes(4) + position.to_bytes(4, "little") + bytes(8) for position in positions]
    size = data.draw(st.integers(0, 64 * count + 64))
    assert_all_agree(Sent(b"".join(entries[:count]), bytes(size), count))


def with_lengths(user_headers: int, payload: int, *, beside: int = 0) -> Sent:
    """One message with the given lengths, after this many small ones."""
    header = pack_header(MessageHeader(0, 1, 0, 0, 0, user_headers, payload))
    messages = bytes(64) * beside + header + bytes(payload + user_headers)
    ends = [64 * (i + 1) for i in range(beside)] + [len(messages)]
    indexes = b"".join(bytes(4) + end.to_bytes(4, "little") + bytes(8) for end in ends)
    return Sent(indexes, messages, beside + 1)


@pytest.mark.parametrize("beside", [0, 20])
@pytest.mark.parametrize(
    ("user_headers", "payload", "fault"),
    [
        (0, 64_000_000, None),
        (0, 64_000_001, errors.PayloadTooBig),
        (100_000, 3, None),
        (100_001, 3, errors.UserHeadersTooBig),
        (100_001, 64_000_001, errors.PayloadTooBig),
    ],
)
def test_limits_are_limits(
    user_headers: int, payload: int, fault: type[errors.BorzoiError] | None, beside: int
) -> None:
    sent = with_lengths(user_headers, payload, beside=beside)
    assert verdict(through_receive, sent).fault is fault
    assert verdict(all_at_once, sent).fault is fault


def test_limits_hold_for_messages_of_one_size() -> None:
    one = with_lengths(100_001, 0).messages
    indexes = b"".join(
        bytes(4) + (len(one) * i).to_bytes(4, "little") + bytes(8) for i in range(1, 11)
    )
    assert assert_all_agree(Sent(indexes, one * 10, 10)).fault is errors.UserHeadersTooBig


def test_lengths_that_only_add_up_in_32_bits_are_refused() -> None:
    header = pack_header(MessageHeader(0, 1, 0, 0, 0, 2**32 - 1, 101))
    ends = [64 * (i + 1) for i in range(20)] + [64 * 20 + 164]
    indexes = b"".join(bytes(4) + end.to_bytes(4, "little") + bytes(8) for end in ends)
    sent = Sent(indexes, bytes(64 * 20) + header + bytes(100), 21)
    assert assert_all_agree(sent).fault is errors.MissingIndex


@pytest.mark.parametrize("count", [2, 20])
@pytest.mark.parametrize(
    ("changed_entry", "at", "value", "fault"),
    [
        (0, 0, 1, errors.NonZeroIndexOffset),
        (-1, 0, 1, errors.NonZeroIndexOffset),
        (0, 8, 1, errors.NonZeroIndexTimestamp),
        (-1, 8, 1, errors.NonZeroIndexTimestamp),
        (0, 4, 65, errors.MissingIndex),
        (0, 4, 63, errors.MissingIndex),
        (0, 4, 0, errors.MissingIndex),
        (-2, 4, 2**32 - 1, errors.MissingIndex),
        (-1, 4, 1, errors.InvalidIndexPosition),
        (-1, 4, 2**32 - 1, None),
    ],
)
def test_a_wrong_index_entry_is_called_by_its_name(
    count: int, changed_entry: int, at: int, value: int, fault: type[errors.BorzoiError] | None
) -> None:
    entries = [
        bytearray(4) + (64 * i).to_bytes(4, "little") + bytes(8) for i in range(1, count + 1)
    ]
    entries[changed_entry][at : at + 4] = value.to_bytes(4, "little")
    assert assert_all_agree(Sent(b"".join(entries), bytes(64 * count), count)).fault is fault


@pytest.mark.parametrize("count", [2, 20])
@pytest.mark.parametrize(
    ("at", "values", "fault"),
    [
        (24, [5, 4], errors.InvalidOffset),
        (24, [4, 5], None),
        (52, [0, 1], errors.MissingIndex),
        (48, [1, 0], errors.MissingIndex),
        (56, [0, 1], errors.InvalidReservedField),
    ],
)
def test_a_wrong_header_is_called_by_its_name(
    count: int, at: int, values: list[int], fault: type[errors.BorzoiError] | None
) -> None:
    messages = bytearray(64 * count)
    for value, start in zip(values, (64 * (count - 2), 64 * (count - 1)), strict=True):
        messages[start + at : start + at + 4] = value.to_bytes(4, "little")
    indexes = b"".join(
        bytes(4) + (64 * i).to_bytes(4, "little") + bytes(8) for i in range(1, count + 1)
    )
    assert assert_all_agree(Sent(indexes, bytes(messages), count)).fault is fault


@pytest.mark.parametrize("count", [1, 20])
@pytest.mark.parametrize("size", [0, 1, 63])
def test_less_than_a_header_is_no_message(count: int, size: int) -> None:
    assert (
        assert_all_agree(Sent(bytes(16 * count), bytes(size), count)).fault is errors.MissingIndex
    )


@pytest.mark.parametrize("count", [LAYOUT_MESSAGES_MAX, LAYOUT_MESSAGES_MAX + 1])
def test_large_batches_of_one_size_are_as_sound_as_small_ones(count: int) -> None:
    indexes = b"".join(
        bytes(4) + (64 * i).to_bytes(4, "little") + bytes(8) for i in range(1, count + 1)
    )
    assert assert_all_agree(Sent(indexes, bytes(64 * count), count)).fault is None


@pytest.mark.parametrize("count", [0, 1, 2, 4, 20])
def test_the_index_must_have_an_entry_per_message(count: int) -> None:
    indexes = b"" if count == 0 else bytes(16 * 3)
    with pytest.raises(errors.InvalidMessagesCount):
        receive(memoryview(bytes(64 * 3)), memoryview(indexes), count)


# ---- what was recorded --------------------------------------------------------------------------


def recorded_sends() -> list[Exchange]:
    scenarios = {"send_validation", "message_limits"}
    return [
        exchange
        for exchange in read_exchanges(GOLDEN)
        if exchange.scenario in scenarios and exchange.command == "send_messages"
    ]


@pytest.mark.parametrize("exchange", recorded_sends(), ids=lambda e: e.step.replace(" ", "-"))
def test_a_recorded_send_gets_its_recorded_answer(exchange: Exchange) -> None:
    payload = exchange.frame[8:]
    metadata_end = 4 + number(payload, 0, 4)
    count = number(payload, metadata_end - 4, 4)
    body = memoryview(payload)[metadata_end:]
    fault = FAULT_OF_STATUS.get(exchange.status or 0)
    if exchange.step.startswith("reserved field"):
        fault = (
            errors.InvalidReservedField
        )  # the published server lets it through, and then cannot poll
    with pytest.raises(fault) if fault else nullcontext():
        receive(body[16 * count :], body[: 16 * count], count)


def test_every_fault_of_a_batch_was_recorded_but_offsets_that_descend() -> None:
    recorded = {exchange.status for exchange in recorded_sends()}
    assert set(FAULT_OF_STATUS) - recorded == {4100}
