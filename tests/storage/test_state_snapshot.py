import hashlib

import pytest
from tests.support.lenient import LenientMedium

from borzoi.model.errors import CannotDecrypt, StateCorrupted
from borzoi.security.encryption import Cipher
from borzoi.storage.state_snapshot import (
    StateSnapshot,
    decode_snapshot,
    encode_snapshot,
    read_snapshot,
    write_snapshot,
)

KEY = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="
OTHER_KEY = "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI="
SNAPSHOT = StateSnapshot(index=41, term=3, timestamp=1_700_000_000_000_000, body=b"\x80all")


def test_a_snapshot_is_48_bytes_of_header_the_body_and_its_sha_256():
    stored = encode_snapshot(SNAPSHOT)
    assert stored[:48].hex() == (
        "424f525a4f49534e" "01000000" "00000000" "2900000000000000" "0300000000000000"
        "00401e18240a0600" "0400000000000000"
    )  # fmt: skip
    assert stored[48:52] == b"\x80all"
    assert stored[52:] == hashlib.sha256(stored[:52]).digest()


@pytest.mark.parametrize("cipher", [None, Cipher(KEY)])
def test_what_was_written_is_read_back(tmp_path, cipher):
    assert read_snapshot(LenientMedium(), tmp_path, cipher) is None
    write_snapshot(LenientMedium(), tmp_path, SNAPSHOT, cipher)
    assert read_snapshot(LenientMedium(), tmp_path, cipher) == SNAPSHOT
    assert [path.name for path in tmp_path.iterdir()] == ["state.snapshot"]


def test_every_flipped_bit_and_every_cut_is_noticed():
    stored = encode_snapshot(SNAPSHOT)
    for bit in range(8 * len(stored)):
        damaged = bytearray(stored)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(StateCorrupted):
            decode_snapshot(bytes(damaged))
    for end in range(len(stored)):
        with pytest.raises(StateCorrupted):
            decode_snapshot(stored[:end])


def test_a_newer_format_is_refused_by_its_number():
    signed = bytearray(encode_snapshot(SNAPSHOT)[:-32])
    signed[8] = 2
    with pytest.raises(StateCorrupted, match="has format 2, this borzoi knows 1"):
        decode_snapshot(bytes(signed) + hashlib.sha256(signed).digest())


def test_an_encrypted_snapshot_needs_its_key():
    stored = encode_snapshot(SNAPSHOT, Cipher(KEY))
    with pytest.raises(CannotDecrypt, match="no encryption key is configured"):
        decode_snapshot(stored)
    with pytest.raises(CannotDecrypt, match="another key"):
        decode_snapshot(stored, Cipher(OTHER_KEY))
