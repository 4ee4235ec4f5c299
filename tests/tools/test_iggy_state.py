import msgspec
import pytest
from tests.support.golden import GOLDEN_DATA, GOLDEN_KEY
from xxhash import xxh3_64_intdigest

from borzoi.model.errors import CannotDecrypt, StateCorrupted
from borzoi.model.limits import NEVER, UNLIMITED
from borzoi.protocol.buffers import Writer
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.streams import CreateStream
from borzoi.security.encryption import Cipher
from borzoi.storage.state_entry import TornTail
from borzoi.tools.iggy_state import (
    COMMAND,
    HASHED,
    HEADER,
    ForeignEntry,
    decode_revoked_tokens,
    read_foreign_log,
    replay,
    translate,
)

OTHER_KEY = "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI="
NOW = 1_800_000_000_000_000


def golden_log(case: str) -> bytes:
    return (GOLDEN_DATA / case / "data/state/log").read_bytes()


def golden_entries(case: str) -> list[ForeignEntry]:
    found = read_foreign_log(golden_log(case))
    return [entry for entry in found if isinstance(entry, ForeignEntry)]


def stored(entry: ForeignEntry, context: bytes = b"") -> bytes:
    """An entry as the published servers write it."""
    head = (entry.index, 0, 0, entry.version, 0, entry.timestamp, entry.user_id)
    command = COMMAND.pack(entry.code, len(entry.command)) + entry.command
    checksum = xxh3_64_intdigest(HASHED.pack(*head, len(context)) + context + command)
    return HEADER.pack(*head, checksum, len(context)) + context + command


def creation(index: int, stream_id: int, name: str) -> ForeignEntry:
    request = Writer()
    CreateStream(name).encode(request)
    inner = request.getvalue()
    command = stream_id.to_bytes(4, "little") + len(inner).to_bytes(4, "little") + inner
    return ForeignEntry(index, 8000, 1_700_000_000_000_000, 0, Code.CREATE_STREAM, command)


def test_the_published_layout_is_read():
    vector = bytes.fromhex(
        "0100000000000000000000000000000000000000401f0000000000000000000000401e18240a060000000000"
        "507b23fa0f425df500000000ca0000000b0000000000000003000000027331"
    )
    assert vector == stored(creation(1, 0, "s1"))
    data = stored(creation(0, 0, "s0")) + vector
    assert list(read_foreign_log(data)) == [creation(0, 0, "s0"), creation(1, 0, "s1")]


def test_an_entry_with_a_context_is_read():
    entry = creation(0, 0, "s1")
    assert list(read_foreign_log(stored(entry, context=b"why not"))) == [entry]


@pytest.mark.parametrize(("case", "count"), [("basic", 4), ("rotation", 3), ("metadata", 38)])
def test_recorded_logs_are_read_to_their_end(case, count):
    entries = list(read_foreign_log(golden_log(case)))
    assert len(entries) == count
    assert all(isinstance(entry, ForeignEntry) for entry in entries)
    # A key does no harm where nothing is encrypted.
    assert list(read_foreign_log(golden_log(case), Cipher(GOLDEN_KEY))) == entries


def test_an_encrypted_log_needs_its_key():
    assert len(list(read_foreign_log(golden_log("encrypted"), Cipher(GOLDEN_KEY)))) == 4
    with pytest.raises(StateCorrupted, match="encrypted and needs its key"):
        list(read_foreign_log(golden_log("encrypted")))
    with pytest.raises(CannotDecrypt, match="another key"):
        list(read_foreign_log(golden_log("encrypted"), Cipher(OTHER_KEY)))


def test_an_encrypted_entry_that_does_not_fit_its_checksum_is_damaged():
    entry = creation(0, 0, "s1")
    sealed = Cipher(GOLDEN_KEY).encrypt(entry.command)
    whole = bytearray(stored(msgspec.structs.replace(entry, command=sealed)))
    whole[20] ^= 1
    with pytest.raises(StateCorrupted, match="does not fit its checksum"):
        list(read_foreign_log(bytes(whole), Cipher(GOLDEN_KEY)))


def test_every_flipped_bit_is_noticed():
    data = stored(creation(0, 0, "a")) + stored(creation(1, 1, "b"))
    for bit in range(8 * len(data) // 2):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises((StateCorrupted, CannotDecrypt)):
            list(read_foreign_log(bytes(damaged)))


def test_a_torn_last_entry_is_told_apart():
    first = stored(creation(0, 0, "a"))
    data = first + stored(creation(1, 1, "b"))
    for end in range(len(first) + 1, len(data)):
        *entries, tail = read_foreign_log(data[:end])
        assert entries == [creation(0, 0, "a")]
        assert isinstance(tail, TornTail)
        assert (tail.position, tail.length) == (len(first), end - len(first))


def test_an_index_that_does_not_continue_is_refused():
    data = stored(creation(0, 0, "a")) + stored(creation(2, 1, "b"))
    with pytest.raises(StateCorrupted, match="entry 1 is expected, the index reads 2"):
        list(read_foreign_log(data))


def test_a_command_nobody_knows_or_can_read_is_refused_with_its_entry():
    unknown = msgspec.structs.replace(creation(3, 0, "a"), code=999)
    with pytest.raises(StateCorrupted, match="entry 3 of the foreign log has command 999"):
        translate(unknown)
    short = msgspec.structs.replace(creation(3, 0, "a"), command=b"\x01")
    with pytest.raises(StateCorrupted, match=r"entry 3 .* version 8000, cannot be read"):
        translate(short)


def test_deleting_segments_changes_no_metadata():
    assert translate(ForeignEntry(0, 8000, 0, 0, Code.DELETE_SEGMENTS, b"")) is None


def test_everything_keeps_the_id_it_had_there():
    root = golden_entries("basic")[0]
    state = replay(
        [root, creation(1, 5, "five"), creation(2, 2, "two"), creation(3, 6, "six")], now=NOW
    )
    assert {stream.id: stream.name for stream in state.streams.values()} == {
        5: "five",
        2: "two",
        6: "six",
    }
    assert state.streams.next_id == 0


def test_an_entry_that_contradicts_the_ones_before_is_refused():
    root = golden_entries("basic")[0]
    for second in (creation(2, 1, "one"), creation(2, 0, "two")):
        with pytest.raises(StateCorrupted, match="entry 2 of the foreign log does not fit"):
            replay([root, creation(1, 0, "one"), second], now=NOW)


def test_an_absurd_id_is_refused_and_not_made_room_for():
    root = golden_entries("basic")[0]
    with pytest.raises(StateCorrupted, match="far beyond"):
        replay([root, creation(1, 2**32 - 1, "one")], now=NOW)


def test_the_richest_recorded_log_replays_to_what_that_server_answers():
    state = replay(golden_entries("metadata"), now=NOW)
    assert {stream.id: stream.name for stream in state.streams.in_order()} == {
        0: "a-renamed",
        2: "e",
        3: "d",
    }
    topics = state.streams[0].topics
    assert [(topic.id, topic.name, len(topic.partitions)) for topic in topics.in_order()] == [
        (0, "t0", 4),
        (1, "t4", 2),
        (2, "t2", 0),
        (3, "t3-renamed", 1),
    ]
    assert (topics[1].message_expiry, topics[1].max_topic_size) == (NEVER, UNLIMITED)
    assert {user.username: list(user.tokens) for user in state.users.in_order()} == {
        "iggy": ["root-token"],
        "bob": ["bob-token"],
        "eve": [],
        "faye": [],
    }
    assert (state.streams.next_id, topics.next_id, topics[0].groups.next_id) == (1, 4, 3)
    assert state.users.next_id == 4


def test_revoked_tokens_are_read_and_old_bytes_behind_them_ignored():
    assert decode_revoked_tokens(bytes.fromhex("81a161ce6553f100")) == {"a": 1_700_000_000}
    assert decode_revoked_tokens(bytes.fromhex("81a161ce6553f100a162")) == {"a": 1_700_000_000}
    assert decode_revoked_tokens(b"\x80rest") == {}
    many = {f"token-{number:040}": number for number in range(20)}
    packed = b"\xde\x00\x14" + b"".join(
        b"\xd9\x2e" + name.encode() + bytes([number]) for name, number in many.items()
    )
    assert decode_revoked_tokens(packed + b"x") == many
    wide = b"\xdf\x00\x00\x00\x01\xda\x00\x01a\xcf" + bytes(7) + b"\x05"
    assert decode_revoked_tokens(wide) == {"a": 5}
    for damaged in (b"", b"\x81", b"\x81\xa1", b"\x91\xa1a", b"\x81\xa1\xff\x01"):
        with pytest.raises(StateCorrupted):
            decode_revoked_tokens(damaged)
