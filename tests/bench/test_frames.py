import pytest

from borzoi.bench.frames import VARIED_BATCHES, PollFrame, SendFrame, send_frames
from borzoi.bench.plan import KIND_BY_NAME, TOPIC, Actor, Plan, Role, Span
from borzoi.client.messages import decode_messages
from borzoi.model.consuming import PollingStrategy
from borzoi.protocol.catalog import decode_request
from borzoi.protocol.commands.messages import PollMessages, SendMessages
from borzoi.protocol.framing import REQUEST_PREFIX

ACTOR = Actor(0, Role.PRODUCER, 1, "bench-stream-1", 0)


def request_of(parts, kind):
    frame = b"".join(bytes(part) for part in parts)
    length, code = REQUEST_PREFIX.unpack_from(frame)
    assert code == kind.CODE
    assert len(frame) == 4 + length
    return decode_request(code, memoryview(frame)[REQUEST_PREFIX.size :])


@pytest.mark.parametrize("sizes", [[5, 5, 5], [1, 9, 4]])
def test_a_send_is_a_whole_frame_whose_times_can_be_set(sizes):
    frame = SendFrame(ACTOR, sizes, b"abcdefghij")
    frame.stamp(77)
    frame.stamp(78)
    request = request_of(frame.parts, SendMessages)
    assert (request.stream_id, request.topic_id) == ("bench-stream-1", TOPIC)
    messages = decode_messages(memoryview(bytes(request.messages)), 0)
    assert [one.payload for one in messages] == [b"abcdefghij"[:size] for size in sizes]
    assert {one.origin_timestamp for one in messages} == {78}
    assert (frame.messages_count, frame.payload_bytes) == (3, sum(sizes))


def test_one_frame_for_fixed_sizes_and_a_few_for_ranges():
    fixed = Plan(KIND_BY_NAME["pp"], messages_per_batch=Span(3, 3))
    assert [one.messages_count for one in send_frames(ACTOR, fixed)] == [3]
    varied = Plan(KIND_BY_NAME["pp"], producers=1, messages_per_batch=Span(1, 9))
    frames = send_frames(ACTOR, varied)
    assert len(frames) == VARIED_BATCHES
    assert all(1 <= one.messages_count <= 9 for one in frames)
    again = send_frames(ACTOR, varied)
    assert [one.payload_bytes for one in frames] == [one.payload_bytes for one in again]


def test_a_poll_moves_on_by_offset_and_a_member_of_a_group_by_what_is_next():
    poll = PollFrame(ACTOR, 10)
    request = request_of(poll.at(42), PollMessages)
    assert request.strategy == PollingStrategy.offset(42)
    assert (request.count, request.auto_commit) == (10, False)
    member = Actor(1, Role.CONSUMER, 1, "bench-stream-1", None, group="cg-1")
    request = request_of(PollFrame(member, 10).at(42), PollMessages)
    assert request.strategy == PollingStrategy.next()
    assert request.auto_commit is True
