import base64
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.model.errors import CannotDecrypt, CannotEncrypt, InvalidEncryptionKey
from borzoi.security.encryption import NONCE_BYTES, OVERHEAD_BYTES, STEP_BYTES, TAG_BYTES, Cipher

KEY = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="
OTHER_KEY = base64.b64encode(bytes(range(32))).decode()


def test_the_stored_form_is_nonce_then_ciphertext_then_tag():
    cipher = Cipher(KEY, draw=lambda count: bytes(range(count)))
    assert cipher.encrypt(b"Hello World!").hex() == (
        "000102030405060708090a0bf3c3f94a4fde51168c0683e515fb121308fdcd9c9950f669c949b7d7"
    )


@given(st.binary(max_size=1000))
def test_what_was_encrypted_comes_back(plaintext):
    cipher = Cipher(KEY)
    ciphertext = cipher.encrypt(plaintext)
    assert len(ciphertext) == len(plaintext) + OVERHEAD_BYTES
    assert cipher.decrypt(ciphertext) == plaintext
    assert cipher.decrypt(memoryview(bytearray(ciphertext))) == plaintext


def test_the_same_plaintext_never_looks_the_same_twice():
    cipher = Cipher(KEY)
    assert len({cipher.encrypt(b"again") for _ in range(100)}) == 100


def test_every_flipped_bit_is_noticed():
    cipher = Cipher(KEY)
    ciphertext = cipher.encrypt(b"abc")
    for bit in range(8 * len(ciphertext)):
        damaged = bytearray(ciphertext)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CannotDecrypt):
            cipher.decrypt(damaged)


def test_another_key_does_not_open_it():
    with pytest.raises(CannotDecrypt, match="another key"):
        Cipher(OTHER_KEY).decrypt(Cipher(KEY).encrypt(b"abc"))


@pytest.mark.parametrize("length", [0, 1, 27])
def test_what_is_too_short_for_nonce_and_tag_is_refused(length):
    with pytest.raises(CannotDecrypt, match="at least 28 bytes"):
        Cipher(KEY).decrypt(bytes(length))


def test_a_nonce_of_the_wrong_size_cannot_slip_through():
    with pytest.raises(CannotEncrypt):
        Cipher(KEY, draw=lambda _: b"short").encrypt(b"abc")


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        ("", "has 0 bytes"),
        (base64.b64encode(bytes(16)).decode(), "has 16 bytes"),
        (base64.b64encode(bytes(33)).decode(), "has 33 bytes"),
        ("not base64 at all!", "not base64"),
        ("ключ", "not base64"),
    ],
)
def test_a_key_that_is_not_32_bytes_of_base64_is_refused(key, sentence):
    with pytest.raises(InvalidEncryptionKey, match=sentence):
        Cipher(key)


def test_the_key_is_never_printed():
    assert KEY not in repr(Cipher(KEY))
    assert repr(Cipher(KEY)) == "Cipher(AES-256-GCM)"


@pytest.mark.parametrize("size", [0, 1, STEP_BYTES, STEP_BYTES + 1, 3 * STEP_BYTES])
def test_a_ciphertext_is_the_same_made_at_once_or_in_steps(size):
    cipher = Cipher(KEY, draw=lambda count: bytes(range(count)))
    plaintext = random.Random(size).randbytes(size)
    target = bytearray(size + OVERHEAD_BYTES)
    steps = sum(1 for _ in cipher.encrypting(memoryview(plaintext), memoryview(target)))
    assert steps == -(-size // STEP_BYTES)
    assert target == cipher.encrypt(plaintext)


@given(st.binary(max_size=1000), st.integers(1, 100))
def test_a_ciphertext_is_opened_piece_by_piece(plaintext, step):
    ciphertext = Cipher(KEY).encrypt(plaintext)
    nonce, body, tag = (
        ciphertext[:NONCE_BYTES],
        ciphertext[NONCE_BYTES:-TAG_BYTES],
        ciphertext[-TAG_BYTES:],
    )
    opening = Cipher(KEY).opening(nonce)
    pieces = [opening.update(body[start : start + step]) for start in range(0, len(body), step)]
    opening.finish(tag)
    assert b"".join(pieces) == plaintext
    opening = Cipher(OTHER_KEY).opening(nonce)
    opening.update(body)
    with pytest.raises(CannotDecrypt):
        opening.finish(tag)
