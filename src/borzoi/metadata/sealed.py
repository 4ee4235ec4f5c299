"""Commands whose secret is already hashed: the only form in which they reach the log.

The shell hashes before it submits, because hashing costs time and chance and the state machine
has neither. Not even the hashes appear in a representation or an error text.
"""

from dataclasses import dataclass, field
from typing import Final

from borzoi.model.identifiers import Identifier
from borzoi.model.users import Permissions, UserStatus

#: How many tokens a user may have unless the server is configured otherwise.
TOKENS_PER_USER_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class SealedCreateUser:
    username: str
    password_hash: str = field(repr=False)
    status: UserStatus = UserStatus.ACTIVE
    permissions: Permissions | None = None


@dataclass(frozen=True, slots=True)
class SealedChangePassword:
    user_id: Identifier
    password_hash: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class SealedCreatePersonalAccessToken:
    """A token of the user who acts; `expiry_at` in µs since the epoch, 0 for never.

    The limit travels with the command: if it were a setting, a changed setting would make a
    replay refuse what was once accepted.
    """

    name: str
    token_hash: str = field(repr=False)
    expiry_at: int = 0
    tokens_max: int = TOKENS_PER_USER_MAX
