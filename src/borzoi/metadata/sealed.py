"""Commands whose secret is already hashed: the only form in which they reach the log.

The shell hashes before it submits, because hashing costs time and chance and the state machine
has neither. Not even the hashes appear in a representation or an error text.
"""

from typing import Final

from borzoi.model.identifiers import Identifier
from borzoi.model.users import Permissions, UserStatus
from borzoi.model.value import Value
from borzoi.protocol.hiding import hiding

#: How many tokens a user may have unless the server is configured otherwise.
TOKENS_PER_USER_MAX: Final = 100


class SealedCreateUser(Value):
    username: str
    password_hash: str
    status: UserStatus = UserStatus.ACTIVE
    permissions: Permissions | None = None
    __repr__ = hiding("password_hash")


class SealedChangePassword(Value):
    user_id: Identifier
    password_hash: str
    __repr__ = hiding("password_hash")


class SealedCreatePersonalAccessToken(Value):
    """A token of the user that sends the command; `expiry_at` in µs since the epoch, 0 for never.

    The limit travels with the command: if it were a setting, a changed setting would make a
    replay refuse what was once accepted.
    """

    name: str
    token_hash: str
    expiry_at: int = 0
    tokens_max: int = TOKENS_PER_USER_MAX
    __repr__ = hiding("token_hash")
