"""Personal access tokens, always the caller's own. The text is shown once; its hash is stored."""

from borzoi.handlers.call import Call
from borzoi.handlers.users import logged_in
from borzoi.metadata import queries
from borzoi.metadata.sealed import SealedCreatePersonalAccessToken
from borzoi.metadata.tokens import expiry_at
from borzoi.model.errors import ResourceNotFound, TokenExpired
from borzoi.protocol.commands.tokens import (
    CreatePersonalAccessToken,
    DeletePersonalAccessToken,
    GetPersonalAccessTokens,
    LoginWithPersonalAccessToken,
    RawToken,
    TokenInfo,
    Tokens,
)
from borzoi.protocol.commands.users import Identity
from borzoi.security.access_tokens import new_token, token_hash


def get_tokens(request: GetPersonalAccessTokens, call: Call) -> Tokens:
    tokens = queries.tokens_of(call.state, call.user_id)
    return Tokens(tuple(TokenInfo(token.name, token.expiry_at) for token in tokens))


async def create_token(request: CreatePersonalAccessToken, call: Call) -> RawToken:
    text = new_token()
    sealed = SealedCreatePersonalAccessToken(
        request.name,
        token_hash(text),
        expiry_at(call.now(), request.expiry),
        call.services.tokens_max,
    )
    await call.submit(sealed)
    return RawToken(text)


async def delete_token(request: DeletePersonalAccessToken, call: Call) -> None:
    """Sessions that logged in with the token end, except the one that deletes it."""
    session, user = call.session, call.caller
    token = None if user is None else user.tokens.get(request.name)
    own = session.token_hash
    if token is not None and token.token_hash == own:
        session.token_hash = None
    try:
        await call.submit(request)
    except BaseException:
        session.token_hash = own
        raise


def login_with_token(request: LoginWithPersonalAccessToken, call: Call) -> Identity:
    hashed = token_hash(request.token)
    found = queries.token_owner(call.state, hashed)
    if found is None:
        raise ResourceNotFound("no user has this token")
    user, token = found
    if token.has_expired(call.now()):
        raise TokenExpired(f"the token {token.name!r} has expired")
    return logged_in(user, call, token_hash=hashed)
