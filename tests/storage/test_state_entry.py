import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.model.errors import CannotDecrypt, StateCorrupted
from borzoi.security.encryption import Cipher
from borzoi.storage.state_entry import (
    COMMAND_BYTES_MAX,
    ENCRYPTED,
    HEADER,
    StateEntry,
    TornTail,
    encode_entry,
    read_entries,
)

KEY = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="
OTHER_KEY = "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI="


def entry(index: int, command: bytes = b"\x81\xa4name\xa2s1") -> StateEntry:
    return StateEntry(index, 0, 1_700_000_000_000_000 + index, 0, 202, command)


def log_of(count: int) -> bytes:
    return b"".join(encode_entry(entry(index)) for index in range(count))


def test_an_entry_is_36_bytes_of_header_the_command_and_its_sha_256():
    stored = encode_entry(StateEntry(7, 3, 1_700_000_000_000_000, 5, 302, b"abc"))
    assert stored[:36].hex() == (
        "0700000000000000030000000000000000401e18240a0600050000002e01000003000000"
    )
    assert stored[36:39] == b"abc"
    assert stored[39:] == hashlib.sha256(stored[:39]).digest()


entries = st.builds(
    StateEntry,
    index=st.just(0),
    term=st.integers(0, 2**64 - 1),
    timestamp=st.integers(0, 2**64 - 1),
    user_id=st.integers(0, 2**32 - 1),
    code=st.integers(0, 2**31 - 1),
    command=st.binary(max_size=200),
)


@given(st.lists(entries, max_size=5), st.integers(0, 2**40), st.booleans())
def test_what_was_written_is_read_back(written, first_index, encrypted):
    cipher = Cipher(KEY) if encrypted else None
    numbered = [
        StateEntry(first_index + i, e.term, e.timestamp, e.user_id, e.code, e.command)
        for i, e in enumerate(written)
    ]
    data = b"".join(encode_entry(e, cipher) for e in numbered)
    assert list(read_entries(data, first_index=first_index, cipher=cipher)) == numbered
    assert list(read_entries(memoryview(data), cipher=cipher)) == numbered


def test_every_cut_of_the_last_entry_leaves_the_entries_before_it_and_a_torn_tail():
    whole, start = log_of(3), len(log_of(2))
    for end in range(start + 1, len(whole)):
        *kept, tail = read_entries(whole[:end], first_index=0)
        assert kept == [entry(0), entry(1)]
        assert isinstance(tail, TornTail)
        assert (tail.position, tail.length, tail.index) == (start, end - start, 2)


def test_every_flipped_bit_of_an_earlier_entry_is_refused_with_its_place():
    whole, first_end = log_of(3), len(log_of(1))
    for bit in range(8 * first_end):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(StateCorrupted, match="entry 0 of the metadata log, at byte 0,"):
            list(read_entries(damaged, first_index=0))


def test_every_flipped_bit_of_the_last_entry_drops_only_that_one():
    whole, start = log_of(3), len(log_of(2))
    for bit in range(8 * start, 8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        *kept, tail = read_entries(damaged, first_index=0)
        assert kept == [entry(0), entry(1)]
        assert isinstance(tail, TornTail)


def test_a_page_of_zeros_at_the_end_is_a_torn_tail():
    *kept, tail = read_entries(log_of(2) + bytes(4096), first_index=0)
    assert len(kept) == 2
    assert tail == TornTail(len(log_of(2)), 4096, 2, "the index reads 0")


def test_a_missing_entry_in_the_middle_is_refused():
    data = encode_entry(entry(0)) + encode_entry(entry(2)) + encode_entry(entry(3))
    with pytest.raises(StateCorrupted, match="entry 1 is expected, the index reads 2"):
        list(read_entries(data, first_index=0))


@pytest.mark.parametrize("index", [0, 1, 3, 1000])
def test_a_whole_entry_with_the_wrong_index_is_never_a_torn_tail(index):
    with pytest.raises(StateCorrupted, match=f"entry 2 is expected, the index reads {index}"):
        list(read_entries(log_of(2) + encode_entry(entry(index)), first_index=0))


def test_damage_far_before_the_next_entry_is_still_refused():
    long = encode_entry(entry(0, b"\x07" * 3_000_000))
    damaged = bytearray(long + encode_entry(entry(1)))
    damaged[100] ^= 1
    with pytest.raises(StateCorrupted, match=f"a whole entry follows at byte {len(long)}"):
        list(read_entries(damaged, first_index=0))


def test_damage_in_the_first_entry_is_refused_wherever_the_log_begins():
    damaged = bytearray(encode_entry(entry(1_000_000)) + encode_entry(entry(1_000_001)))
    damaged[40] ^= 1
    with pytest.raises(StateCorrupted, match="at byte 0, is damaged"):
        list(read_entries(damaged))


def test_an_absurd_length_is_damage_and_not_a_reason_to_read_on():
    header = HEADER.pack(0, 0, 0, 0, 1, COMMAND_BYTES_MAX + 1)
    (tail,) = read_entries(header + bytes(100), first_index=0)
    assert isinstance(tail, TornTail)
    assert "length reads" in tail.reason


def test_an_encrypted_entry_says_so_in_its_code_and_hides_its_command():
    stored = encode_entry(entry(0, b"secret"), Cipher(KEY))
    assert HEADER.unpack_from(stored)[4] == 202 | ENCRYPTED
    assert b"secret" not in stored
    (read,) = read_entries(stored, cipher=Cipher(KEY))
    assert read == entry(0, b"secret")


def test_encryption_can_be_turned_on_later():
    data = encode_entry(entry(0)) + encode_entry(entry(1), Cipher(KEY))
    assert list(read_entries(data, cipher=Cipher(KEY))) == [entry(0), entry(1)]


def test_an_encrypted_entry_without_a_key_or_with_another_one_is_refused():
    stored = encode_entry(entry(4), Cipher(KEY))
    with pytest.raises(CannotDecrypt, match=r"entry 4 .* no encryption key is configured"):
        list(read_entries(stored))
    with pytest.raises(CannotDecrypt, match=r"entry 4 .* another key"):
        list(read_entries(stored, cipher=Cipher(OTHER_KEY)))
