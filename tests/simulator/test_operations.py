"""Bodies and replies survive their encoding."""

from hypothesis import given
from hypothesis import strategies as st

from borzoi.simulator import operations as ops


@given(st.lists(st.binary(max_size=40), max_size=6))
def test_a_send_gives_back_its_payloads(payloads):
    body = ops.send_body(3, 9, payloads)
    assert ops.payloads_of(body) == payloads
    assert ops.unpack(body).count == len(payloads)
    assert ops.unpack(body).run_length == len(body) - ops.DESCRIPTOR.size


def test_stamping_changes_offset_and_time_only():
    body = ops.send_body(3, 9, [b"a", b"bc"])
    stamped = ops.stamped(body, 77, 123456)
    before, after = ops.unpack(body), ops.unpack(stamped)
    assert (after.base_offset, after.base_timestamp) == (77, 123456)
    assert (after.namespace, after.incarnation, after.count, after.run_checksum) == (
        before.namespace,
        before.incarnation,
        before.count,
        before.run_checksum,
    )
    assert ops.payloads_of(stamped) == [b"a", b"bc"]


def test_a_descriptor_is_the_64_bytes_of_the_data_plane():
    assert ops.DESCRIPTOR.size == 64
    assert len(ops.data_body(1, 2, 3, 4)) == 64


def test_replies_carry_status_and_value():
    assert ops.read_reply(ops.reply(ops.Status.LIMIT)) == (ops.Status.LIMIT, None)
    assert ops.read_reply(ops.reply(ops.Status.OK, [(1, 2)])) == (ops.Status.OK, [[1, 2]])


def test_planes_do_not_share_operations():
    assert not set(ops.CONTROL) & set(ops.DATA)
