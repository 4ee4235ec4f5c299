"""Batches between the socket and the disk."""

import mmap
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.record_strategies import Sent, sent, sent_batches, stored
from xxhash import xxh3_64_intdigest

from borzoi.model.errors import (
    BorzoiError,
    InvalidMessagesSize,
    InvalidReservedField,
    MessageTooSmall,
)
from borzoi.model.limits import U32_MAX, U64_MAX
from borzoi.records import batch as batch_module
from borzoi.records.batch import (
    SMALL,
    Batch,
    JoinedBatches,
    equal_batch,
    index_entries,
    keep,
    stamp,
    stamp_checksums,
    verify,
    walk,
    walk_prefix,
)
from borzoi.records.header import unpack_header
from borzoi.records.layouts import LAYOUT_MESSAGES_MAX
from borzoi.records.message import Message, decode_messages

pytestmark = pytest.mark.usefixtures("both_ways")

NOW = 1_700_000_000_000_000

# id 1, offset 5, payload "hello"; id 2, offset 6, the same and two user headers: both as the
# published server stored them.
STORED = bytes.fromhex(
    "db70d4303790623901000000000000000000000000000000050000000000000000401e18240a0600"
    "ff3f1e18240a06000000000005000000000000000000000068656c6c6f"
    "355134079e34374d02000000000000000000000000000000060000000000000000401e18240a0600"
    "ff3f1e18240a06001b00000005000000000000000000000068656c6c6f"
    "02010000006b02010000007602010000006e0604000000fbffffff"
)


def counted_ids(count: int) -> bytes:
    """Ids that show which of those asked for they are."""
    return b"".join((2**127 + number).to_bytes(16, "little") for number in range(count))


class IdsInOrder:
    """Gives the same ids in the same order, in whatever portions they are asked for."""

    def __init__(self) -> None:
        self.given = 0

    def __call__(self, count: int) -> bytes:
        first, self.given = self.given, self.given + count
        return counted_ids(self.given)[first * 16 :]


def reference_stamp(messages: bytes, base_offset: int, timestamp: int) -> bytes:
    """One message after another, with nothing clever about it."""
    new_ids, stamped = IdsInOrder(), bytearray()
    for offset, message in enumerate(whole_messages(messages), base_offset):
        message_id = message[8:24] if any(message[8:24]) else new_ids(1)
        rest = message_id + offset.to_bytes(8, "little") + timestamp.to_bytes(8, "little")
        rest += message[40:]
        stamped += xxh3_64_intdigest(rest).to_bytes(8, "little") + rest
    return bytes(stamped)


def whole_messages(messages: bytes) -> list[bytes]:
    found = []
    while messages:
        size = unpack_header(messages).size
        found.append(messages[:size])
        messages = messages[size:]
    return found


def in_general(batch: Batch) -> Batch:
    """The same batch, with nothing known about the sizes of its messages."""
    return Batch(batch.messages, batch.ends)


# ---- what a batch is ----------------------------------------------------------------------------


def test_the_published_checksums_are_ours() -> None:
    batch = walk(memoryview(bytearray(STORED)))
    assert len(batch) == 2
    assert batch.size == len(STORED)
    assert verify(batch) is None
    stamp_checksums(batch)
    assert bytes(batch.messages) == STORED


@given(sent_batches())
def test_columns_say_what_the_headers_say(request: Sent) -> None:
    batch = stored(request, base_offset=2**40, timestamp=NOW)
    messages = decode_messages(batch.messages)
    for each in (batch, in_general(batch)):
        assert each.offsets().tolist() == [message.offset for message in messages]
        assert each.timestamps().tolist() == [message.timestamp for message in messages]
        ids = [message.id.to_bytes(16, "little") for message in messages]
        assert each.ids().tolist() == ids
        assert each.ends.tolist() == np.cumsum(np.diff(each.ends, prepend=0)).tolist()
        assert list(each.bounds()) == list(
            zip(each.starts.tolist(), each.ends.tolist(), strict=True)
        )


@given(sent_batches())
def test_columns_let_go_of_the_buffer(request: Sent) -> None:
    batch = request.received()
    columns = (batch.ids(), batch.offsets(), batch.timestamps(), batch.ends)
    batch.messages.release()
    assert all(len(column) == request.messages_count for column in columns)


def test_a_batch_knows_its_count() -> None:
    for count in (0, 1, 7, 8, 100):
        batch = sent([Message(b"x")] * count).received() if count else Batch(memoryview(b""), [])
        assert batch.count == len(batch) == count


def test_an_empty_batch_has_nothing_to_do() -> None:
    batch = walk(memoryview(bytearray()))
    stamp(batch, base_offset=0, timestamp=NOW, new_ids=counted_ids)
    stamp_checksums(batch)
    assert len(batch) == batch.size == len(batch.ids()) == len(batch.starts) == 0
    assert verify(batch) is None
    assert index_entries(batch, relative_offset=0, position=0, timestamp=NOW) == b""
    assert len(keep(batch, np.zeros(0, bool))) == 0


# ---- stamping -----------------------------------------------------------------------------------


@given(sent_batches(), st.integers(0, U64_MAX - 100), st.integers(0, U64_MAX))
def test_every_way_to_stamp_gives_the_bytes_of_the_reference(
    request: Sent, base_offset: int, timestamp: int
) -> None:
    expected = reference_stamp(request.messages, base_offset, timestamp)
    for way in (lambda batch: batch, in_general):
        batch = way(request.received())
        stamp(batch, base_offset=base_offset, timestamp=timestamp, new_ids=IdsInOrder())
        assert bytes(batch.messages) == expected
        assert verify(batch) is None


@pytest.mark.parametrize("count", [3, 20])
@pytest.mark.parametrize("payloads", [[b"one size"], [b"two", b"sizes"]], ids=["one", "two"])
@pytest.mark.parametrize(
    "ids",
    [[0], [1], [2**64], [2**127, 5], [0, 1], [0, 2**64], [1, 2**64], [0, 1, 2**64]],
    ids=str,
)
def test_only_missing_ids_are_filled(count: int, payloads: list[bytes], ids: list[int]) -> None:
    """Also beside ids of which one half is zero."""
    request = sent([Message(payloads[n % len(payloads)], ids[n % len(ids)]) for n in range(count)])
    batch = request.received()
    stamp(batch, base_offset=7, timestamp=NOW, new_ids=IdsInOrder())
    assert bytes(batch.messages) == reference_stamp(request.messages, 7, NOW)


@pytest.mark.parametrize("count", [1, SMALL - 1, SMALL, 100])
def test_ids_may_come_as_an_array(count: int) -> None:
    batch = sent([Message(b"x")] * count).received()
    stamp(
        batch,
        base_offset=0,
        timestamp=NOW,
        new_ids=lambda n: np.frombuffer(counted_ids(n), np.uint8).copy(),
    )
    assert all(any(message_id) for message_id in batch.ids().tolist())


@pytest.mark.parametrize("count", [1, SMALL, 100])
def test_the_last_offset_there_is_can_be_given(count: int) -> None:
    batch = sent([Message(b"x")] * count).received()
    stamp(batch, base_offset=U64_MAX - count, timestamp=NOW, new_ids=counted_ids)
    assert batch.offsets().tolist() == list(range(U64_MAX - count, U64_MAX))


@given(sent_batches(), st.data())
def test_the_first_changed_message_is_found(request: Sent, data: st.DataObject) -> None:
    batch = stored(request)
    bounds = list(batch.bounds())
    changed = data.draw(st.lists(st.integers(0, len(batch) - 1), min_size=1, max_size=3))
    for number in changed:
        start, end = bounds[number]
        # Not the lengths: with those changed there would be other messages.
        at = data.draw(st.one_of(st.integers(0, 47), st.integers(56, end - start - 1)))
        batch.messages[start + at] ^= 1 << data.draw(st.integers(0, 7))
    unchanged = [number for number in changed if changed.count(number) == 1]
    if len(unchanged) == len(changed):
        assert verify(batch) == verify(in_general(batch)) == min(changed)


# ---- index entries ------------------------------------------------------------------------------


@given(sent_batches(), st.integers(0, 2**31), st.integers(0, 2**31), st.integers(0, U64_MAX))
def test_index_entries_point_at_the_end_of_each_message(
    request: Sent, relative_offset: int, position: int, timestamp: int
) -> None:
    batch = request.received()
    entries = index_entries(
        batch, relative_offset=relative_offset, position=position, timestamp=timestamp
    )
    expected = b"".join(
        (relative_offset + number).to_bytes(4, "little")
        + (position + int(end)).to_bytes(4, "little")
        + timestamp.to_bytes(8, "little")
        for number, end in enumerate(batch.ends)
    )
    assert entries == expected


@pytest.mark.parametrize("count", [LAYOUT_MESSAGES_MAX, LAYOUT_MESSAGES_MAX + 1])
def test_large_batches_have_index_entries_like_small_ones(count: int) -> None:
    batch = sent([Message(b"x")] * count).received()
    entries = index_entries(batch, relative_offset=5, position=7, timestamp=NOW)
    general = index_entries(in_general(batch), relative_offset=5, position=7, timestamp=NOW)
    assert entries == general
    columns = np.frombuffer(entries, "<u4").reshape(count, 4)
    assert columns[:, 0].tolist() == list(range(5, 5 + count))
    assert columns[:, 1].tolist() == [7 + 65 * number for number in range(1, count + 1)]


@pytest.mark.parametrize("count", [1, 2, 100])
def test_an_index_never_wraps_around(count: int) -> None:
    batch = sent([Message(b"x")] * count).received()
    room = U32_MAX - batch.size
    index_entries(batch, relative_offset=0, position=room, timestamp=NOW)
    with pytest.raises(AssertionError):
        index_entries(batch, relative_offset=0, position=room + 1, timestamp=NOW)
    with pytest.raises(AssertionError):
        index_entries(batch, relative_offset=U32_MAX, position=0, timestamp=NOW)


# ---- walking ------------------------------------------------------------------------------------


@given(sent_batches())
def test_a_walk_finds_the_ends_that_were_received(request: Sent) -> None:
    received, walked = request.received(), walk(memoryview(request.messages))
    assert walked.ends.tolist() == received.ends.tolist()
    assert walked.ends.dtype == received.ends.dtype == np.uint32


@pytest.mark.parametrize("count", [SMALL, 30])
def test_a_batch_of_a_known_size_is_found_without_a_walk(count: int) -> None:
    request = sent([Message(b"x" * 100)] * count)
    received = request.received()
    messages = memoryview(bytearray(request.messages))
    found = equal_batch(messages, received.equal_size)
    assert found.ends.tolist() == received.ends.tolist()
    assert (found.count, found.equal_size) == (count, received.equal_size)
    stamp(found, 5, NOW, counted_ids)
    assert verify(walk(found.messages)) is None
    assert found.offsets().tolist() == list(range(5, 5 + count))


@given(sent_batches(count_max=20), st.data())
def test_a_walk_over_half_a_message_is_refused(request: Sent, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(request.messages) - 1))
    ends = [0, *request.received().ends.tolist()]
    try:
        walked = walk(memoryview(request.messages)[:cut])
    except (MessageTooSmall, InvalidMessagesSize):
        assert cut not in ends
    else:
        assert walked.ends.tolist() == ends[1 : ends.index(cut) + 1]


@pytest.mark.parametrize("count", [2, SMALL, 30])
@pytest.mark.parametrize(
    ("missing", "fault"), [(1, InvalidMessagesSize), (10, MessageTooSmall), (70, MessageTooSmall)]
)
def test_what_is_missing_at_the_end_is_called_by_its_name(
    count: int, missing: int, fault: type[BorzoiError]
) -> None:
    messages = sent([Message(b"payload")] * count).messages
    with pytest.raises(fault):
        walk(memoryview(messages)[:-missing])


@pytest.mark.parametrize("count", [1, SMALL, 30])
@pytest.mark.parametrize("number", [0, -1])
def test_a_walk_refuses_a_reserved_field(count: int, number: int) -> None:
    batch = sent([Message(b"x")] * count).received()
    start = batch.starts[number]
    batch.messages[start + 63] = 1
    with pytest.raises(InvalidReservedField):
        walk(batch.messages)


@given(st.binary(max_size=300))
def test_a_walk_over_garbage_raises_ours(garbage: bytes) -> None:
    for messages in (garbage, bytes(64 * SMALL) + garbage):
        try:
            walk(memoryview(messages))
        except BorzoiError:
            pass


def test_more_than_positions_can_say_is_refused() -> None:
    """Four gigabytes of addresses, not of memory."""
    with mmap.mmap(-1, U32_MAX + 1) as pages, memoryview(pages) as view:
        with pytest.raises(InvalidMessagesSize):
            walk(view)
        assert len(walk_prefix(view)) == 0


@given(sent_batches(count_max=12), st.integers(0, 2**63))
def test_a_prefix_ends_before_every_cut(request: Sent, base_offset: int) -> None:
    """Cut anywhere: the whole messages before the cut are found, and nothing else."""
    messages = stored(request, base_offset=base_offset).messages
    ends = walk(messages).ends.tolist()
    cuts = range(len(messages) + 1) if len(messages) < 1500 else [*ends, *[e - 1 for e in ends]]
    for cut in cuts:
        whole = [end for end in ends if end <= cut]
        prefix = walk_prefix(messages[:cut])
        assert prefix.ends.tolist() == whole
        assert prefix.size == (whole[-1] if whole else 0)


@given(sent_batches(count_max=20), st.data())
def test_a_prefix_ends_before_every_flipped_bit(request: Sent, data: st.DataObject) -> None:
    messages = stored(request).messages
    ends = walk(messages).ends.tolist()
    at = data.draw(st.integers(0, len(messages) - 1))
    messages[at] ^= 1 << data.draw(st.integers(0, 7))
    prefix = walk_prefix(messages)
    assert prefix.ends.tolist() == [end for end in ends if end <= at]


@pytest.mark.parametrize(
    "behind",
    [
        lambda _: bytes(4096),
        lambda messages: messages[:63],
        lambda messages: messages,
        lambda messages: messages[::-1],
        lambda _: b"\xff" * 1000,
    ],
    ids=["zeros", "half a header", "the same offsets again", "reversed", "ones"],
)
@pytest.mark.parametrize("count", [1, SMALL, 50])
def test_what_lies_behind_the_end_is_not_read_as_messages(
    count: int, behind: Callable[[bytes], bytes]
) -> None:
    written = bytes(stored(sent([Message(b"payload")] * count)).messages)
    prefix = walk_prefix(memoryview(written + behind(written)))
    assert len(prefix) == count
    assert bytes(prefix.messages) == written


def test_a_prefix_stops_where_an_offset_is_missing() -> None:
    parts = [stored(sent([Message(b"x")] * 3), base_offset=base).messages for base in (5, 8, 12)]
    prefix = walk_prefix(memoryview(b"".join(parts)))
    assert prefix.offsets().tolist() == [5, 6, 7, 8, 9, 10]


@given(st.binary(max_size=300))
def test_a_prefix_of_garbage_is_nothing_or_sound(garbage: bytes) -> None:
    assert verify(walk_prefix(memoryview(garbage))) is None


# ---- keeping ------------------------------------------------------------------------------------


@given(sent_batches(), st.data())
def test_kept_messages_are_unchanged_and_in_order(request: Sent, data: st.DataObject) -> None:
    batch = stored(request)
    count = len(batch)
    mask = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    before = decode_messages(batch.messages)
    kept = keep(batch, np.array(mask, bool))
    expected = [message for message, wanted in zip(before, mask, strict=True) if wanted]
    assert decode_messages(kept.messages) == expected
    assert kept.ends.tolist() == walk(kept.messages).ends.tolist()
    assert not kept.messages.readonly
    stamp(kept, base_offset=0, timestamp=NOW, new_ids=counted_ids)
    assert decode_messages(batch.messages) == before


def test_a_mask_has_a_word_for_every_message() -> None:
    batch = sent([Message(b"x")] * 3).received()
    with pytest.raises(ValueError, match="zip"):
        keep(batch, np.ones(2, bool))


@given(sent_batches(), st.data())
def test_a_part_of_a_batch_is_a_batch(given_batch: Sent, data: st.DataObject) -> None:
    batch = walk(memoryview(bytearray(given_batch.messages)))
    first = data.draw(st.integers(0, batch.count - 1))
    last = data.draw(st.integers(first + 1, batch.count))
    part = batch.part(first, last)
    again = walk(part.messages)
    assert part.count == again.count == last - first
    assert part.ends.tolist() == again.ends.tolist()
    assert bytes(part.messages) == b"".join(whole_messages(given_batch.messages)[first:last])
    stamp(part, base_offset=7, timestamp=NOW, new_ids=counted_ids)
    assert verify(part) is None
    assert walk(batch.messages).offsets().tolist()[first:last] == [*range(7, 7 + part.count)]


@pytest.mark.parametrize("first", [0, 5])
def test_a_small_part_of_a_large_batch(first: int) -> None:
    part = sent([Message(b"12345")] * 20).received().part(first, first + 2)
    assert part.ends.tolist() == [69, 138]
    assert part.equal_size == 0


@pytest.mark.parametrize(
    ("count", "first", "last"), [(5, 0, 5), (5, 2, 4), (30, 0, 30), (30, 9, 29)]
)
def test_a_part_of_any_size(count: int, first: int, last: int) -> None:
    batch = sent([Message(b"12345")] * count).received()
    part = batch.part(first, last)
    assert part.count == last - first
    assert part.ends.tolist() == [69 * number for number in range(1, last - first + 1)]


# Joining. ----------------------------------------------------------------------------------------


@given(st.lists(sent_batches(count_max=12), min_size=1, max_size=6))
def test_joined_batches_are_stamped_like_one_after_another(parts: list[Sent]) -> None:
    apart = [part.received() for part in parts]
    joining = JoinedBatches()
    for part in parts:
        batch = part.received()
        joining.add(batch.messages, batch.ends)
    together = joining.batch()
    assert len(joining) == together.size
    ids, same_ids, offset = IdsInOrder(), IdsInOrder(), 7
    for batch in apart:
        stamp(batch, base_offset=offset, timestamp=NOW, new_ids=ids)
        offset += batch.count
    stamp(together, base_offset=7, timestamp=NOW, new_ids=same_ids)
    assert bytes(together.messages) == b"".join(bytes(batch.messages) for batch in apart)
    assert together.count == offset - 7
    assert together.ends.tolist() == walk(together.messages).ends.tolist()


def test_a_repeated_frame_is_joined_only_by_the_accelerator() -> None:
    request = sent([Message(b"12345")])
    start = b"code" + (4).to_bytes(4, "little")
    payload = (1).to_bytes(4, "little") + request.indexes + request.messages
    frame = (len(start) + len(payload)).to_bytes(4, "little") + start + payload
    joining = JoinedBatches()
    size = joining.join(memoryview(frame), start)
    assert size == (0 if batch_module.native is None else len(request.messages))
    assert joining.join(memoryview(frame), start + b"?") == 0
    assert len(joining) == size
