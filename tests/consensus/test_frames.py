"""Offsets pinned byte by byte, checksums by vector, receive checks in order (F1)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.consensus.frames import (
    EMPTY_BODY,
    LAYOUTS,
    FrameRefused,
    blank,
    check_body,
    checksum,
    decode_frame,
    decode_header,
    decode_headers,
    encode_frame,
    encode_headers,
    is_blank,
    pack_header,
    root,
    seal_prepare,
    unpack_header,
    validate,
)
from borzoi.consensus.invariants import InvariantError
from borzoi.consensus.messages import (
    UNSEALED,
    ZERO,
    Command,
    Header,
    Operation,
    Ping,
    Prepare,
    StartView,
)

CLUSTER = b"cluster-of-tests"

# fmt: off
COMMON = {"checksum": (0, 16), "checksum_body": (16, 16), "cluster": (32, 16), "size": (48, 4),
          "view": (52, 4), "release": (56, 4), "command": (60, 1), "replica": (61, 1)}
OFFSETS: dict[Command, dict[str, tuple[int, int]]] = {
    Command.REQUEST: {"client": (128, 16), "request_checksum": (144, 16), "timestamp": (160, 8),
        "request": (168, 8), "operation": (176, 1), "namespace": (184, 8), "user_id": (192, 4),
        "epoch": (200, 8)},
    Command.REPLY: {"request_checksum": (128, 16), "context": (144, 16), "client": (160, 16),
        "op": (176, 8), "commit": (184, 8), "timestamp": (192, 8), "request": (200, 8),
        "operation": (208, 1), "namespace": (216, 8), "status": (224, 4)},
    Command.PREPARE: {"client": (128, 16), "parent": (144, 16), "request_checksum": (160, 16),
        "op": (176, 8), "commit": (184, 8), "timestamp": (192, 8), "request": (200, 8),
        "operation": (208, 1), "namespace": (216, 8), "user_id": (224, 4)},
    Command.PREPARE_OK: {"parent": (128, 16), "prepare_checksum": (144, 16), "op": (160, 8),
        "commit": (168, 8), "timestamp": (176, 8), "request": (184, 8), "operation": (192, 1),
        "namespace": (200, 8)},
    Command.COMMIT: {"commit_checksum": (128, 16), "timestamp_monotonic": (144, 8),
        "commit": (152, 8), "checkpoint_op": (160, 8), "namespace": (168, 8)},
    Command.START_VIEW_CHANGE: {"namespace": (128, 8)},
    Command.DO_VIEW_CHANGE: {"op": (128, 8), "commit": (136, 8), "namespace": (144, 8),
        "log_view": (152, 4), "nack_bitset": (224, 16), "present_bitset": (240, 16)},
    Command.START_VIEW: {"op": (128, 8), "commit": (136, 8), "namespace": (144, 8),
        "incarnation": (240, 16)},
    Command.REQUEST_START_VIEW: {"namespace": (128, 8), "flags": (136, 4),
        "incarnation": (240, 16)},
    Command.REQUEST_HEADERS: {"namespace": (128, 8), "op_min": (136, 8), "op_max": (144, 8),
        "op_max_checksum": (152, 16)},
    Command.HEADERS: {"namespace": (128, 8)},
    Command.REQUEST_PREPARE: {"namespace": (128, 8), "op": (136, 8),
        "prepare_checksum": (144, 16)},
    Command.REQUEST_STATE_TRANSFER: {"nonce": (128, 16), "namespace": (144, 8)},
    Command.STATE_TRANSFER_TARGET: {"nonce": (128, 16), "commit_op": (144, 8),
        "namespace": (152, 8), "available": (160, 1), "transient": (161, 1),
        "commit_max": (168, 8)},
    Command.REQUEST_STATE_CHUNK: {"nonce": (128, 16), "offset": (144, 8), "namespace": (152, 8),
        "length": (160, 4), "artifact": (164, 4)},
    Command.STATE_CHUNK: {"nonce": (128, 16), "offset": (144, 8), "namespace": (152, 8),
        "artifact": (160, 4)},
    Command.PING: {"ping_monotonic": (128, 8), "pong_wall": (136, 8), "checkpoint_op": (144, 8),
        "control_view": (152, 4), "status": (156, 1)},
    Command.PONG: {"ping_monotonic": (128, 8), "pong_wall": (136, 8), "checkpoint_op": (144, 8),
        "control_view": (152, 4), "status": (156, 1)},
    Command.HANDSHAKE: {"status": (128, 1), "flags": (129, 1), "namespace": (136, 8),
        "incarnation": (144, 16), "echo": (160, 16), "nonce": (176, 32), "mac": (208, 32)},
    Command.PING_CLIENT: {"client": (128, 16)},
    Command.PONG_CLIENT: {"client": (128, 16)},
    Command.EVICTION: {"client": (128, 16)},
}
# fmt: on


def header_of(command: Command, **fields: Any) -> Header:
    """A header with recognisable values: every field differs from every other."""
    layout = LAYOUTS[command]
    sizes = COMMON | OFFSETS[command]
    values: dict[str, Any] = {}
    for number, name in enumerate(layout.header._fields, start=1):
        size = sizes[name][1]
        raw = bytes([number]) * size
        is_bytes = size >= 16
        values[name] = raw if is_bytes else int.from_bytes(raw, "little")
    values |= {"cluster": CLUSTER, "size": 256, "command": int(command), "checksum": UNSEALED}
    values |= {"checksum_body": EMPTY_BODY, "replica": 1} | fields
    return layout.header(**values)


def prepare(op: int = 1, **fields: Any) -> Prepare:
    fields = {"view": 3, "operation": int(Operation.NOOP)} | fields
    made = header_of(Command.PREPARE, op=op, **fields)
    assert isinstance(made, Prepare)
    return seal_prepare(made)


@pytest.mark.parametrize("command", list(OFFSETS))
def test_every_field_stands_at_its_published_offset(command):
    header = header_of(command)
    raw = pack_header(header)
    assert len(raw) == 256
    covered = bytearray(256)
    for name, (start, size) in (COMMON | OFFSETS[command]).items():
        value = getattr(header, name)
        expected = value if isinstance(value, bytes) else value.to_bytes(size, "little")
        if name != "checksum":
            assert raw[start : start + size] == expected, name
        covered[start : start + size] = b"\1" * size
    assert not any(byte for byte, known in zip(raw, covered, strict=True) if not known)


def test_every_command_but_reserved_has_a_layout_and_a_pinned_table():
    assert set(LAYOUTS) == {int(c) for c in Command} - {0} == {int(c) for c in OFFSETS}


def test_the_checksum_is_xxh3_128_as_a_little_endian_number():
    # The reference digest of no bytes is 99aa06d3014798d86001c324468d497f, written big-endian.
    assert checksum(b"") == bytes.fromhex("99aa06d3014798d86001c324468d497f")[::-1]


def test_a_packed_header_carries_the_checksum_of_its_other_bytes():
    raw = pack_header(header_of(Command.COMMIT))
    assert raw[:16] == checksum(raw[16:])


def test_a_sealed_prepare_packs_to_the_same_bytes_for_ever():
    sealed = prepare()
    assert pack_header(sealed)[:16] == sealed.checksum
    assert unpack_header(pack_header(sealed)) == sealed


def test_the_identity_of_a_prepare_covers_view_parent_and_body():
    identities = {
        prepare().checksum,
        prepare(op=2).checksum,
        prepare(view=4).checksum,
        prepare(parent=ZERO).checksum,
        prepare(checksum_body=ZERO).checksum,
    }
    assert len(identities) == 5


def test_the_root_is_the_same_on_every_replica_and_differs_by_cluster_and_group():
    assert root(CLUSTER, 0) == root(CLUSTER, 0)
    assert root(CLUSTER, 0).checksum != root(CLUSTER, 1).checksum
    assert root(CLUSTER, 0).checksum != root(ZERO, 0).checksum


def raised_by(data: bytes) -> FrameRefused:
    with pytest.raises(FrameRefused) as caught:
        decode_frame(data, CLUSTER, 3)
    return caught.value


def resealed(raw: bytes) -> bytes:
    return checksum(raw[16:]) + raw[16:]


def with_bytes(raw: bytes, start: int, new: bytes) -> bytes:
    return resealed(raw[:start] + new + raw[start + len(new) :])


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda raw: raw[:100], "256 bytes"),
        (lambda raw: raw[:200] + b"\xff" + raw[201:], "header checksum"),
        (lambda raw: with_bytes(raw, 32, ZERO), "another cluster"),
        (lambda raw: with_bytes(raw, 60, b"\x0e"), "unknown command 14"),
        (lambda raw: with_bytes(raw, 48, b"\xff\0\0\0"), "size 255"),
        (lambda raw: with_bytes(raw, 48, b"\0\0\0\xff"), "size"),
        (lambda raw: raw + b"more", "body checksum"),
    ],
)
def test_damage_of_header_or_body_closes_the_connection(damage, reason):
    refused = raised_by(damage(pack_header(header_of(Command.COMMIT))))
    assert reason in str(refused)
    assert refused.closes_connection


def test_reserved_bytes_that_are_not_zero_drop_the_frame_and_keep_the_connection():
    refused = raised_by(with_bytes(pack_header(header_of(Command.COMMIT)), 100, b"\1"))
    assert "reserved" in str(refused)
    assert not refused.closes_connection


def framed(header: Header, body: bytes) -> Header:
    return header._replace(size=256 + len(body), checksum_body=checksum(body))


def suffix(*ops: int) -> bytes:
    return encode_headers([prepare(op) for op in ops])


@pytest.mark.parametrize(
    ("header", "body", "reason"),
    [
        (header_of(Command.START_VIEW_CHANGE), b"x", "has a body"),
        (header_of(Command.COMMIT, replica=3), b"", "not in the roster"),
        (header_of(Command.PREPARE, operation=99), b"", "unknown operation 99"),
        (header_of(Command.REQUEST, operation=2), b"", "unknown operation 2"),
        (header_of(Command.DO_VIEW_CHANGE, view=1, log_view=2), b"", "log_view above view"),
        (
            header_of(Command.DO_VIEW_CHANGE, view=2, log_view=2, op=1, commit=2),
            b"",
            "commit above",
        ),
        (header_of(Command.START_VIEW, view=3), b"", "not the primary"),
        (header_of(Command.START_VIEW, view=4, op=1, commit=2), b"", "commit above op"),
        (header_of(Command.START_VIEW, view=4, op=2, commit=1), b"short", "do not decode"),
        (header_of(Command.START_VIEW, view=4, op=2, commit=1), suffix(2), "down to commit"),
        (header_of(Command.START_VIEW, view=4, op=2, commit=1), suffix(1, 2), "out of order"),
        (
            header_of(Command.START_VIEW, view=4, op=1, commit=1),
            encode_headers([blank(1)]),
            "blank",
        ),
        (header_of(Command.HEADERS), b"short", "headers do not decode"),
    ],
)
def test_a_frame_that_breaks_the_rules_of_its_command_is_dropped_by_name(header, body, reason):
    refused = raised_by(encode_frame(framed(header, body), body))
    assert reason in str(refused)
    assert not refused.closes_connection


def test_good_frames_of_view_changes_pass_all_checks():
    body = encode_headers([prepare(2), blank(1)])
    claim = framed(header_of(Command.DO_VIEW_CHANGE, view=2, log_view=2, op=2, commit=1), body)
    assert decode_frame(encode_frame(claim, body), CLUSTER, 3)[1] == body
    start = framed(header_of(Command.START_VIEW, view=4, op=2, commit=1), suffix(2, 1))
    assert isinstance(decode_frame(encode_frame(start, suffix(2, 1)), CLUSTER, 3)[0], StartView)
    assert validate(framed(header_of(Command.HEADERS), suffix(1)), suffix(1), 3) is None


def test_suffix_headers_must_be_whole_true_and_of_this_cluster():
    good = pack_header(prepare())
    assert decode_headers(good, CLUSTER) == [prepare()]
    assert decode_headers(good + b"x", CLUSTER) is None
    assert decode_headers(good * 129, CLUSTER) is None
    assert decode_headers(good, ZERO) is None
    assert decode_headers(good[:200] + b"\1" + good[201:], CLUSTER) is None
    assert decode_headers(pack_header(header_of(Command.COMMIT)), CLUSTER) is None


def test_a_blank_is_recognised_and_nothing_else_may_hide_in_one():
    raw = encode_headers([blank(7)])
    assert [is_blank(header) for header in decode_headers(raw, CLUSTER) or []] == [True]
    assert decode_headers(raw[:150] + b"\1" + raw[151:], CLUSTER) is None


def test_a_body_must_have_the_length_and_the_checksum_its_header_says():
    header = framed(header_of(Command.PREPARE), b"body")
    check_body(header, b"body")
    for wrong in (b"bodx", b"bod"):
        with pytest.raises(FrameRefused):
            check_body(header, wrong)


@given(st.binary(min_size=0, max_size=600))
def test_garbage_is_refused_and_nothing_else_happens(data):
    with pytest.raises(FrameRefused):
        decode_frame(data, CLUSTER, 3)


@given(op=st.integers(0, 2**64 - 1), view=st.integers(0, 2**32 - 1), body=st.binary(max_size=64))
def test_frames_survive_the_wire(op, view, body):
    header = framed(header_of(Command.PREPARE, op=op, view=view, operation=4), body)
    sealed = seal_prepare(header) if isinstance(header, Prepare) else header
    assert decode_frame(encode_frame(sealed, body), CLUSTER, 3) == (sealed, body)


def test_header_kinds_are_told_apart_by_type():
    assert isinstance(decode_header(pack_header(header_of(Command.PING)), CLUSTER), Ping)


def test_unpacking_trusts_that_the_command_was_checked():
    raw = bytearray(pack_header(root(bytes(16), 0)))
    raw[60] = 14
    with pytest.raises(InvariantError, match="command 14"):
        unpack_header(bytes(raw))
