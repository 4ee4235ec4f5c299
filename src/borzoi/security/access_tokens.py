"""Personal access tokens: random text shown once, of which only a hash is kept.

A token carries 400 bits of chance, so a fast hash is enough: there is nothing to guess.
"""

from base64 import b64encode
from secrets import token_bytes
from typing import Final

from blake3 import blake3

TOKEN_RANDOM_BYTES: Final = 50
TOKEN_CHARACTERS: Final = 68


def new_token() -> str:
    """A new token: random bytes in standard Base64, padded."""
    return b64encode(token_bytes(TOKEN_RANDOM_BYTES)).decode("ascii")


def token_hash(text: str) -> str:
    """What is kept of a token: BLAKE3 of its text, in lower-case hexadecimal."""
    return str(blake3(text.encode()).hexdigest())
