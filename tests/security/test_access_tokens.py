import re
from base64 import b64decode

from borzoi.security.access_tokens import (
    TOKEN_CHARACTERS,
    TOKEN_RANDOM_BYTES,
    new_token,
    token_hash,
)


def test_a_token_is_fifty_random_bytes_in_base64():
    token = new_token()
    assert len(token) == TOKEN_CHARACTERS
    assert len(b64decode(token, validate=True)) == TOKEN_RANDOM_BYTES


def test_no_two_tokens_are_alike():
    assert len({new_token() for _ in range(100)}) == 100


def test_what_is_kept_is_blake3_of_the_text():
    """The digests of the empty text and of "abc" are published test vectors."""
    assert token_hash("") == "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
    assert token_hash("abc") == "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"
    assert re.fullmatch("[0-9a-f]{64}", token_hash(new_token()))
