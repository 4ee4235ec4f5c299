"""What the commands about personal access tokens do to the state. Tokens arrive hashed."""

from borzoi.metadata import queries
from borzoi.metadata.effects import ApplyResult, Change, DroppedToken
from borzoi.metadata.sealed import SealedCreatePersonalAccessToken
from borzoi.metadata.state import Metadata, Token, User
from borzoi.model.errors import (
    InvalidTokenName,
    ResourceNotFound,
    TokenNameTaken,
    TokensLimitReached,
)
from borzoi.model.limits import (
    NEVER,
    SERVER_DEFAULT,
    TOKEN_NAME_BYTES_MAX,
    TOKEN_NAME_BYTES_MIN,
    U64_MAX,
)
from borzoi.model.value import Value
from borzoi.protocol.commands.tokens import DeletePersonalAccessToken

#: `expiry_at` of a token that lives until it is deleted.
NEVER_EXPIRES = 0


class ExpireTokens(Value):
    """Tokens that expired at `before` or earlier are removed; sessions they opened continue.

    Logged like any other removal, or a restart would bring the tokens back.
    """

    before: int


def check_token_name(name: str) -> None:
    """Raises `InvalidTokenName` when the name is too short or too long."""
    if not TOKEN_NAME_BYTES_MIN <= len(name.encode()) <= TOKEN_NAME_BYTES_MAX:
        raise InvalidTokenName(
            f"a token name has {TOKEN_NAME_BYTES_MIN} to {TOKEN_NAME_BYTES_MAX} bytes: {name!r}"
        )


def expiry_at(now: int, expiry: int) -> int:
    """When a token expires that is to live for `expiry` µs; what lies beyond time is never."""
    if expiry in (SERVER_DEFAULT, NEVER) or now + expiry > U64_MAX:
        return NEVER_EXPIRES
    return now + expiry


def create_token(state: Metadata, command: SealedCreatePersonalAccessToken, user_id: int) -> Change:
    user = queries.user(state, user_id)
    check_token_name(command.name)
    if len(user.tokens) >= command.tokens_max:
        raise TokensLimitReached(f"user {user.username!r} has {len(user.tokens)} tokens already")
    if command.name in user.tokens:
        raise TokenNameTaken(f"token {command.name!r} exists already")
    if command.token_hash in state.token_owners:
        raise TokenNameTaken("this very token exists already")

    def change() -> ApplyResult:
        user.tokens[command.name] = Token(command.name, command.token_hash, command.expiry_at)
        state.token_owners[command.token_hash] = user.id
        return ApplyResult()

    return change


def delete_token(state: Metadata, command: DeletePersonalAccessToken, user_id: int) -> Change:
    user = queries.user(state, user_id)
    if command.name not in user.tokens:
        raise ResourceNotFound(f"user {user.username!r} has no token {command.name!r}")

    def change() -> ApplyResult:
        token = _drop(state, user, command.name)
        return ApplyResult(effects=(DroppedToken(user.id, token.name, token.token_hash),))

    return change


def expire_tokens(state: Metadata, command: ExpireTokens) -> Change:
    def change() -> ApplyResult:
        for user in state.users.values():
            for token in list(user.tokens.values()):
                if token.has_expired(command.before):
                    _drop(state, user, token.name)
        return ApplyResult()

    return change


def _drop(state: Metadata, user: User, name: str) -> Token:
    token = user.tokens.pop(name)
    del state.token_owners[token.token_hash]
    return token
