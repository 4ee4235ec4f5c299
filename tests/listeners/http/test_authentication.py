"""Authentication: tokens issued, used, refreshed, revoked; and every token that is rejected."""

import base64
import json
from collections.abc import Mapping

import msgspec
import pytest
from tests.support.embedded import EmbeddedServer
from tests.support.http_calls import Caller as HttpCaller
from tests.support.http_calls import app_of

from borzoi.handlers.sessions import NOBODY
from borzoi.listeners.http import authentication
from borzoi.listeners.http.authentication import Authenticator, stranger
from borzoi.model.errors import InvalidAccessToken
from borzoi.model.system import TransportKind
from borzoi.model.users import UserStatus
from borzoi.protocol.commands.tokens import (
    CreatePersonalAccessToken,
    DeletePersonalAccessToken,
    LoginWithPersonalAccessToken,
)
from borzoi.protocol.commands.users import CreateUser, DeleteUser, LoginUser, UpdateUser
from borzoi.security.jwt import (
    Claims,
    HmacKey,
    Issuing,
    OtherIssuer,
    Policy,
    Unverified,
    issue,
    taken_apart,
)

KEY = HmacKey("HS256", b"secret", b"secret")
NOW = 1_800_000_000
HERE = "127.0.0.1:1234"


class Remembered(dict[str, int]):
    async def add(self, token_id: str, expiry: int) -> None:
        self[token_id] = expiry


class Elsewhere:
    """An issuer that accepts every token that names it."""

    user_id = 1

    async def checked(self, token: Unverified, *, now: float) -> Claims:
        return token.claims


class Doors:
    """An authenticator whose clock a test moves."""

    def __init__(self, server: EmbeddedServer, others: Mapping[str, OtherIssuer] = {}) -> None:
        self.now = NOW
        self.revoked = Remembered()
        self.authenticator = Authenticator(
            Issuing(KEY, "us", "them", 3600, 0),
            Policy(("us",), ("them",), 5),
            others,
            self.revoked,
            lambda: server.services.metadata.state,
            lambda: self.now * 1_000_000,
        )

    def token(self, user_id: int, token_hash: str | None = None) -> str:
        session = msgspec.structs.replace(
            stranger(HERE).session, user_id=user_id, token_hash=token_hash
        )
        return self.authenticator.identity(session).token

    async def user_of(self, token: str) -> int | None:
        return (await self.authenticator.caller(f"Bearer {token}", HERE)).session.user_id

    async def refuses(self, token: str) -> bool:
        try:
            await self.user_of(token)
        except InvalidAccessToken:
            return True
        return False


async def test_a_login_is_a_token_that_speaks_for_its_user(server: EmbeddedServer) -> None:
    doors = Doors(server)
    session = msgspec.structs.replace(stranger(HERE).session, user_id=0)
    identity = doors.authenticator.identity(session)
    assert (identity.user_id, identity.expiry) == (0, NOW + 3600)
    caller = await doors.authenticator.caller(f"Bearer {identity.token}", HERE)
    found = caller.session
    assert (found.client_id, found.user_id, found.transport) == (NOBODY, 0, TransportKind.HTTP)
    claims = taken_apart(identity.token).claims
    assert (claims.sub, claims.iss, claims.aud, claims.iat) == ("0", "us", "them", NOW)


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "bearer {}", "Bearer  {}", "Basic {}", "{}"]
)
async def test_the_header_has_one_form(server: EmbeddedServer, header: str | None) -> None:
    doors = Doors(server)
    given = None if header is None else header.format(doors.token(0))
    with pytest.raises(InvalidAccessToken):
        await doors.authenticator.caller(given, HERE)


async def test_a_token_ends_when_it_says_so_known_or_not(server: EmbeddedServer) -> None:
    doors = Doors(server)
    token = doors.token(0)
    doors.now += 3604
    assert await doors.user_of(token) == 0
    doors.now += 1
    assert await doors.refuses(token)


async def test_a_token_is_exchanged_once(server: EmbeddedServer) -> None:
    doors = Doors(server)
    token = doors.token(0)
    fresh = await doors.authenticator.refreshed(token, HERE)
    assert await doors.refuses(token)
    assert await doors.user_of(fresh.token) == 0
    with pytest.raises(InvalidAccessToken):
        await doors.authenticator.refreshed(token, HERE)
    # Kept for longer than the token could be shown, clocks that differ included.
    assert all(expiry >= NOW + 3600 + 5 for expiry in doors.revoked.values())


async def test_a_token_that_was_given_back_opens_nothing(server: EmbeddedServer) -> None:
    doors = Doors(server)
    token = doors.token(0)
    await doors.authenticator.give_back(await doors.authenticator.caller(f"Bearer {token}", HERE))
    assert await doors.refuses(token)
    with pytest.raises(InvalidAccessToken):
        await doors.authenticator.give_back(stranger(HERE))


async def made_user(server: EmbeddedServer, name: str) -> int:
    created = await server.root().call(CreateUser(name, "secret", UserStatus.ACTIVE, None))
    user_id: int = created.id
    return user_id


async def test_a_number_that_went_to_another_user_opens_nothing(server: EmbeddedServer) -> None:
    doors = Doors(server)
    user_id = await made_user(server, "first")
    token = doors.token(user_id)
    assert await doors.user_of(token) == user_id
    await server.root().call(DeleteUser("first"))
    assert (
        await doors.user_of(token) == user_id
    )  # no user has the number, so the token permits nothing
    assert await made_user(server, "second") == user_id
    assert await doors.refuses(token)


async def test_an_inactive_user_is_shut_out(server: EmbeddedServer) -> None:
    doors = Doors(server)
    token = doors.token(await made_user(server, "idle"))
    await server.root().call(UpdateUser("idle", None, UserStatus.INACTIVE))
    assert await doors.refuses(token)
    await server.root().call(UpdateUser("idle", None, UserStatus.ACTIVE))
    assert not await doors.refuses(token)


async def test_a_token_for_a_personal_one_ends_with_it(server: EmbeddedServer) -> None:
    root = server.root()
    text = (await root.call(CreatePersonalAccessToken("mine", 0))).token
    client = server.connect()
    await client.call(LoginWithPersonalAccessToken(text))
    doors = Doors(server)
    token = doors.token(0, client.session.token_hash)
    assert await doors.user_of(token) == 0
    fresh = (await doors.authenticator.refreshed(token, HERE)).token
    await root.call(DeletePersonalAccessToken("mine"))
    assert await doors.refuses(fresh)
    await root.call(LoginUser("iggy", "iggy"))


@pytest.mark.parametrize("subject", ["", "root", "-1", "1e3", "٣"])
async def test_a_token_about_nobody_is_refused(server: EmbeddedServer, subject: str) -> None:
    doors = Doors(server)
    claims = Claims("us", "them", subject, NOW + 60, jti="x", iat=NOW)
    assert await doors.refuses(issue(KEY, claims))


async def test_tokens_of_another_issuer_act_as_its_user_and_are_not_renewed(
    server: EmbeddedServer,
) -> None:
    user_id = await made_user(server, "guest")
    assert user_id == Elsewhere.user_id
    doors = Doors(server, {"elsewhere": Elsewhere()})
    claims = Claims("elsewhere", "x", "0", NOW + 60, jti="y", born=1, pat="no such hash")
    token = issue(HmacKey("HS256", b"theirs", b"theirs"), claims)
    assert await doors.user_of(token) == user_id
    with pytest.raises(InvalidAccessToken, match="only the issuer of the token"):
        await doors.authenticator.refreshed(token, HERE)


async def test_what_is_remembered_of_tokens_is_bounded(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authentication, "KNOWN_MAX", 3)
    doors = Doors(server)
    for _ in range(10):
        token = doors.token(0)
        for _ in range(2):
            assert await doors.user_of(token) == 0
        assert len(doors.authenticator._known) <= 3


async def test_a_changed_token_is_not_taken_for_a_known_one(server: EmbeddedServer) -> None:
    doors = Doors(server)
    token = doors.token(0)
    assert await doors.user_of(token) == 0
    header, claims, signature = token.split(".")
    document = json.loads(base64.urlsafe_b64decode(claims + "=="))
    forged = base64.urlsafe_b64encode(json.dumps(document | {"sub": "1"}).encode()).rstrip(b"=")
    assert await doors.refuses(f"{header}.{forged.decode()}.{signature}")


SECRET = "a secret that this test knows as well"
#: What is changed about a good token that is signed again; times count from when it was issued.
WRONG: dict[str, dict[str, object]] = {
    "wrong issuer": {"iss": "elsewhere.org"},
    "wrong audience": {"aud": "elsewhere.org"},
    "expired": {"exp": -3600.0},
    "from the future": {"nbf": 3600.0},
    "issued in the future": {"iat": 3600.0},
    "about nobody": {"sub": "nobody"},
}


@pytest.mark.parametrize("name", [*WRONG, "alg: none", "another secret", "revoked", "cut short"])
async def test_a_bad_token_is_answered_with_401_and_nothing_else(
    server: EmbeddedServer, name: str
) -> None:
    app = app_of(server, JWT_ENCODING_SECRET=SECRET)
    async with HttpCaller(app) as caller:
        good = await caller.login()
        assert (await caller.get("/streams")).status_code == 200
        if name == "revoked":
            assert (await caller.delete("/users/logout")).status_code == 204
        bad = spoilt(good, name)
        known = dict(app._authenticator._known)
        for path in ("/streams", "/users", "/nowhere"):
            answer = await caller.get(path, headers={"Authorization": f"Bearer {bad}"})
            assert (answer.status_code, answer.content) == (401, b"")
        answer = await caller.post("/users/refresh-token", json={"token": bad})
        assert answer.status_code == 401
        # Nothing is remembered of it.
        assert app._authenticator._known == known


def spoilt(good: str, name: str) -> str:
    secret = b"another secret" if name == "another secret" else SECRET.encode()
    key = HmacKey("HS256", secret, secret)
    claims = taken_apart(good).claims
    if name in WRONG:
        changes = WRONG[name]
        for field in ("exp", "nbf", "iat"):
            if field in changes:
                changes = {field: claims.iat + float(str(changes[field]))}
        return issue(key, msgspec.structs.replace(claims, **changes))
    if name == "alg: none":
        header = base64.urlsafe_b64encode(b'{"typ":"JWT","alg":"none"}').rstrip(b"=").decode()
        return f"{header}.{good.split('.')[1]}."
    if name == "cut short":
        return good[:-1]
    return good if name == "revoked" else issue(key, claims)
