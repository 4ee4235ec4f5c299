"""Tokens from the settings."""

import base64
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.support.embedded import EmbeddedServer, embedded_server
from tests.support.http_calls import Caller, app_of
from tests.support.starts import settings_with

from borzoi.model.errors import InvalidConfiguration
from borzoi.security.jwt import HmacKey, taken_apart
from borzoi.server.token_rules import key_of, others_of
from borzoi.server.transport_settings import HttpSection


def section_of(folder: Path, **settings: str) -> HttpSection:
    return settings_with(folder, **{f"HTTP_{key}": value for key, value in settings.items()}).http


def test_a_secret_is_used_as_it_is_or_as_base64(tmp_path: Path) -> None:
    plain = section_of(tmp_path, JWT_ENCODING_SECRET="c2VjcmV0", JWT_ALGORITHM="HS384")
    assert key_of(plain.jwt) == HmacKey("HS384", b"c2VjcmV0", b"c2VjcmV0")
    encoded = section_of(tmp_path, JWT_ENCODING_SECRET="c2VjcmV0", JWT_USE_BASE64_SECRET="true")
    assert key_of(encoded.jwt) == HmacKey("HS256", b"secret", b"secret")
    assert key_of(section_of(tmp_path).jwt) != key_of(section_of(tmp_path).jwt)


def test_rsa_needs_a_key(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfiguration, match="RS256 needs a private key"):
        key_of(section_of(tmp_path, JWT_ALGORITHM="RS256").jwt)


def test_other_issuers_are_known_by_name(tmp_path: Path) -> None:
    jwt = section_of(
        tmp_path,
        JWT_TRUSTED_ISSUERS_0_ISSUER="them",
        JWT_TRUSTED_ISSUERS_0_AUDIENCE="us",
        JWT_TRUSTED_ISSUERS_0_JWKS_URL="file:///keys.json",
        JWT_TRUSTED_ISSUERS_0_USER_ID="3",
    ).jwt
    others = others_of(jwt)
    assert others["them"].user_id == 3
    assert others_of(section_of(tmp_path).jwt) == {}


@pytest.mark.parametrize("algorithm", ["HS256", "HS512", "RS256", "RS512"])
async def test_a_login_with_every_kind_of_key(tmp_path: Path, algorithm: str) -> None:
    secret = "a secret of the operator"
    if algorithm.startswith("RS"):
        key = rsa.generate_private_key(65537, 2048)
        secret = base64.b64encode(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        ).decode()
    settings = {
        "JWT_ALGORITHM": algorithm,
        "JWT_ENCODING_SECRET": secret,
        "JWT_USE_BASE64_SECRET": "true" if algorithm.startswith("RS") else "false",
        "JWT_ACCESS_TOKEN_EXPIRY": "2 h",
    }
    async with embedded_server(tmp_path / "data") as server:
        token = await logged_in(server, settings)
        claims = taken_apart(token).claims
        assert taken_apart(token).header.alg == algorithm
        assert claims.exp - claims.iat == 7200
        # Another start with the same secret knows the token.
        async with Caller(app_of(server, **settings)) as caller:
            headers = {"Authorization": f"Bearer {token}"}
            assert (await caller.get("/streams", headers=headers)).status_code == 200
        async with Caller(app_of(server)) as caller:
            assert (await caller.get("/streams", headers=headers)).status_code == 401


async def logged_in(server: EmbeddedServer, settings: dict[str, str]) -> str:
    async with Caller(app_of(server, **settings)) as caller:
        return await caller.login()


async def test_a_token_may_never_expire(tmp_path: Path) -> None:
    async with embedded_server(tmp_path / "data") as server:
        claims = taken_apart(await logged_in(server, {"JWT_ACCESS_TOKEN_EXPIRY": "none"})).claims
        assert claims.exp - claims.iat == 1_000_000_000
