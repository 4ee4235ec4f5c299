"""Passwords: Argon2id, stored as a PHC string; the password itself is never stored or logged.

Hashing takes tens of milliseconds of processor time and 19 MiB of memory by design: callers run
these functions outside the event loop.
"""

from typing import Final

from argon2 import PasswordHasher, Type
from argon2.exceptions import InvalidHashError, VerificationError

from borzoi.model.errors import InvalidPassword
from borzoi.model.limits import PASSWORD_BYTES_MAX, PASSWORD_BYTES_MIN

MEMORY_KIB: Final = 19456
PASSES: Final = 2
LANES: Final = 1

_HASHER: Final = PasswordHasher(
    time_cost=PASSES,
    memory_cost=MEMORY_KIB,
    parallelism=LANES,
    hash_len=32,
    salt_len=16,
    type=Type.ID,
)

#: The hash of a random password that was discarded. Logins with an unknown name are verified
#: against it, so that they take as long as logins with a known one.
_DUMMY_HASH: Final = (
    "$argon2id$v=19$m=19456,t=2,p=1$GoH1IbCMEwKQ89Q22nTHuA$"
    "aL+fkvYaA7SYFdGszJkOVvNg+I3/O5g4jOuPzin0jj0"
)


def check_password(text: str) -> None:
    """Raises `InvalidPassword` when the text is too short or too long to be one."""
    if not PASSWORD_BYTES_MIN <= len(text.encode()) <= PASSWORD_BYTES_MAX:
        # The text is a secret, so the message gives the bounds and not the text.
        raise InvalidPassword(f"a password has {PASSWORD_BYTES_MIN} to {PASSWORD_BYTES_MAX} bytes")


def hash_password(text: str) -> str:
    """Return the PHC string to store, with a new random salt."""
    return _HASHER.hash(text)


def verify_password(hashed: str | None, text: str) -> bool:
    """Whether the text is the password; cost and variant are read from the hash.

    Pass None as the hash of an unknown user: the answer is no, after the same amount of work.
    """
    try:
        return _HASHER.verify(_DUMMY_HASH if hashed is None else hashed, text) and (
            hashed is not None
        )
    except (VerificationError, InvalidHashError):
        return False


def is_outdated(hashed: str) -> bool:
    """Whether the hash has outdated costs, so that the next login should renew it."""
    return _HASHER.check_needs_rehash(hashed)
