"""Personal access tokens: random text shown once, of which only a hash is stored.

A token has 400 random bits, so a fast hash is enough: it cannot be guessed.
"""

from base64 import b64encode
from secrets import token_bytes
from typing import Final

from blake3 import blake3

TOKEN_RANDOM_BYTES: Final = 50
TOKEN_CHARACTERS: Final = 68


def new_token() -> str:
    """Generate a token: random bytes in standard Base64, padded."""
    return b64encode(token_bytes(TOKEN_RANDOM_BYTES)).decode("ascii")


def token_hash(text: str) -> str:
    """Return the stored form of a token: BLAKE3 of its text, in lower-case hexadecimal."""
    return str(blake3(text.encode()).hexdigest())
