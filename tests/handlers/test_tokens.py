import pytest
from tests.support.embedded import EmbeddedClient, EmbeddedServer, embedded_server

from borzoi.model.errors import (
    InvalidTokenName,
    ResourceNotFound,
    TokenExpired,
    TokenNameTaken,
    TokensLimitReached,
)
from borzoi.model.limits import U64_MAX
from borzoi.protocol.commands.tokens import (
    CreatePersonalAccessToken,
    DeletePersonalAccessToken,
    GetPersonalAccessTokens,
    LoginWithPersonalAccessToken,
)
from borzoi.protocol.commands.users import GetUsers


async def test_a_token_logs_in_until_it_is_deleted(
    root: EmbeddedClient, server: EmbeddedServer
) -> None:
    token = (await root.call(CreatePersonalAccessToken("deploy"))).token
    client = server.connect()
    assert (await client.call(LoginWithPersonalAccessToken(token))).user_id == 0
    await client.call(GetUsers())
    await root.call(DeletePersonalAccessToken("deploy"))
    assert client.hung_up
    with pytest.raises(ResourceNotFound):
        await server.connect().call(LoginWithPersonalAccessToken(token))


async def test_a_session_that_deletes_its_own_token_goes_on_and_others_of_it_end(
    root: EmbeddedClient, server: EmbeddedServer
) -> None:
    """As on 0.8.0, where programs delete the token they came with when they are done."""
    token = (await root.call(CreatePersonalAccessToken("deploy"))).token
    own, other = server.connect(), server.connect()
    for client in (own, other):
        await client.call(LoginWithPersonalAccessToken(token))
    await own.call(DeletePersonalAccessToken("deploy"))
    assert (own.hung_up, other.hung_up) == (False, True)
    await own.call(GetPersonalAccessTokens())
    # A name that is not there leaves the session as it is: its token still ends it.
    token = (await root.call(CreatePersonalAccessToken("second"))).token
    third = server.connect()
    await third.call(LoginWithPersonalAccessToken(token))
    with pytest.raises(ResourceNotFound):
        await third.call(DeletePersonalAccessToken("no such name"))
    await root.call(DeletePersonalAccessToken("second"))
    assert third.hung_up


async def test_an_expired_token_opens_nothing(root: EmbeddedClient, server: EmbeddedServer) -> None:
    token = (await root.call(CreatePersonalAccessToken("short", expiry=1))).token
    with pytest.raises(TokenExpired):
        await server.connect().call(LoginWithPersonalAccessToken(token))


async def test_an_expiry_beyond_time_is_never(root: EmbeddedClient) -> None:
    await root.call(CreatePersonalAccessToken("ever", expiry=U64_MAX - 1))
    listed = (await root.call(GetPersonalAccessTokens())).tokens
    assert [(token.name, token.expiry_at) for token in listed] == [("ever", 0)]


async def test_names_are_bounded_and_unique(root: EmbeddedClient) -> None:
    await root.call(CreatePersonalAccessToken("deploy"))
    with pytest.raises(TokenNameTaken):
        await root.call(CreatePersonalAccessToken("deploy"))
    with pytest.raises(InvalidTokenName):
        await root.call(CreatePersonalAccessToken("no"))
    with pytest.raises(ResourceNotFound):
        await root.call(DeletePersonalAccessToken("other"))


async def test_a_user_has_as_many_tokens_as_configured(tmp_path) -> None:
    settings = {"PERSONAL_ACCESS_TOKEN_MAX_TOKENS_PER_USER": "1"}
    async with embedded_server(tmp_path, settings) as server:
        root = server.root()
        await root.call(CreatePersonalAccessToken("one"))
        with pytest.raises(TokensLimitReached):
            await root.call(CreatePersonalAccessToken("two"))
