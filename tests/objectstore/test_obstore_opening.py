"""Where credentials come from: a stand-in plays the store and all the places that hand them out."""

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from borzoi.model.errors import InvalidConfiguration
from borzoi.objectstore.locations import Location, Secrets, Timing, open_store
from borzoi.objectstore.obstore_opening import s3_config
from borzoi.security.certificates import self_signed, server_context

EXPIRES = "2099-01-01T00:00:00Z"


class StandIn:
    """Answers as a store, as the instance's and the container's metadata, and as STS."""

    def __init__(self) -> None:
        self.endpoint = ""
        self.requests: list[str] = []
        #: When what is handed out ends, and how often that was done.
        self.expires = EXPIRES
        self.handed_out = 0
        #: The access key and the token that requests to the store were signed with.
        self.signed_by: list[tuple[str, str]] = []
        self.headers: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = re.search(r"(?i)content-length: (\d+)", head)
                if length:
                    await reader.readexactly(int(length[1]))
                status, body = self.answer(head)
                head = f'HTTP/1.1 {status}\r\nETag: "1"\r\nContent-Length: {len(body)}\r\n\r\n'
                writer.write((head + body).encode())
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def answer(self, head: str) -> tuple[str, str]:
        line = head.split("\r\n")[0]
        self.requests.append(line)
        if "/latest/api/token" in line:
            return "200 OK", "imds-token"
        if line.startswith("GET /latest/meta-data/iam/security-credentials/role"):
            assert "x-aws-ec2-metadata-token: imds-token" in head.lower()
            return "200 OK", self._credentials("FROM-INSTANCE")
        if "/latest/meta-data/iam/security-credentials" in line:
            return "200 OK", "role"
        if "/container" in line:
            return "200 OK", self._credentials("FROM-CONTAINER")
        if "AssumeRoleWithWebIdentity" in line or line.startswith("POST / "):
            return "200 OK", (
                "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>"
                "<AccessKeyId>FROM-WEB-IDENTITY</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"
                f"<SessionToken>t</SessionToken><Expiration>{EXPIRES}</Expiration>"
                "</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
            )
        key = re.search(r"Credential=([^/]+)/", head)
        token = re.search(r"(?i)x-amz-security-token: (\S+)", head)
        self.signed_by.append((key[1] if key else "", token[1] if token else ""))
        self.headers.append(head.lower())
        return "200 OK", ""

    def _credentials(self, key: str) -> str:
        self.handed_out += 1
        return json.dumps(
            {
                "Code": "Success",
                "AccessKeyId": key,
                "SecretAccessKey": "s",
                "Token": "t",
                "Expiration": self.expires,
                "LastUpdated": self.expires,
            }
        )


@pytest_asyncio.fixture
async def stand_in(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[StandIn]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    made = StandIn()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.endpoint = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", made.endpoint)
    yield made
    server.close()


async def put_one(location: Location) -> None:
    store = open_store(location, Timing(request_seconds=5))
    try:
        await store.put("k", b"1")
    finally:
        await store.close()


def at(stand_in: StandIn, **keywords) -> Location:
    return Location("s3", "bucket", endpoint=stand_in.endpoint, region="us-east-1", **keywords)


def trusted_context(folder: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """A certificate for localhost that the library is configured to trust."""
    pair = self_signed()
    (folder / "cert.pem").write_bytes(pair.certificate)
    (folder / "key.pem").write_bytes(pair.key)
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "cert.pem"))
    return server_context(folder / "cert.pem", folder / "key.pem")


async def test_given_ones_come_first(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "FROM-ENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    await put_one(at(stand_in, secrets=Secrets("GIVEN", "s", "given-token")))
    assert stand_in.signed_by == [("GIVEN", "given-token")]


async def test_then_the_environment(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "FROM-ENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "env-token")
    await put_one(at(stand_in))
    assert stand_in.signed_by == [("FROM-ENVIRONMENT", "env-token")]


async def test_a_web_identity_is_exchanged(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The library speaks to STS over TLS only, so the stand-in has a certificate there."""
    token = tmp_path / "token"
    token.write_text("a-jwt")
    server = await asyncio.start_server(
        stand_in.serve, "127.0.0.1", 0, ssl=trusted_context(tmp_path, monkeypatch)
    )
    port = server.sockets[0].getsockname()[1]
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(token))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/borzoi")
    monkeypatch.setenv("AWS_ROLE_SESSION_NAME", "borzoi")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"https://localhost:{port}")
    try:
        await put_one(at(stand_in))
    finally:
        server.close()
    assert stand_in.signed_by == [("FROM-WEB-IDENTITY", "t")]


async def test_a_container_is_asked(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{stand_in.endpoint}/container")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "/dev/null")
    await put_one(at(stand_in))
    assert stand_in.signed_by == [("FROM-CONTAINER", "t")]


async def test_last_the_instance_is_asked(stand_in: StandIn) -> None:
    await put_one(at(stand_in))
    assert stand_in.signed_by == [("FROM-INSTANCE", "t")]
    assert any("/latest/api/token" in line for line in stand_in.requests), "version 2 of it"


@pytest.mark.parametrize(("minutes", "times"), [(60, 1), (1, 2)])
async def test_what_expires_is_renewed_before_it_does(
    stand_in: StandIn, minutes: int, times: int
) -> None:
    stand_in.expires = f"{datetime.now(UTC) + timedelta(minutes=minutes):%Y-%m-%dT%H:%M:%SZ}"
    store = open_store(at(stand_in), Timing(request_seconds=5))
    await store.put("k", b"1")
    # The library asks again at most every 100 ms.
    await asyncio.sleep(0.2)
    await store.put("k", b"2")
    await store.close()
    assert stand_in.handed_out == times
    assert stand_in.signed_by == [("FROM-INSTANCE", "t")] * 2


async def test_a_profile_is_read_when_no_key_is_given(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(
        "[backup]\naws_access_key_id = FROM-PROFILE\naws_secret_access_key = s\n"
    )
    await put_one(at(stand_in, profile="backup"))
    assert stand_in.signed_by == [("FROM-PROFILE", "")]


async def test_encryption_is_asked_for(stand_in: StandIn) -> None:
    await put_one(
        at(
            stand_in,
            secrets=Secrets("A", "s"),
            server_side_encryption="aws:kms",
            kms_key_id="key-1",
        )
    )
    assert "x-amz-server-side-encryption: aws:kms" in stand_in.headers[0]
    assert "key-1" in stand_in.headers[0]


@pytest.mark.parametrize(
    ("endpoint", "signing", "unsigned"),
    [
        ("", "auto", True),
        ("https://s3.example", "auto", True),
        ("http://127.0.0.1:8333", "auto", False),
        ("https://s3.example", "always", False),
        ("http://127.0.0.1:8333", "never", True),
    ],
)
def test_payloads_are_signed_where_nothing_else_protects_them(
    endpoint: str, signing: str, unsigned: bool
) -> None:
    location = Location("s3", "bucket", endpoint=endpoint, payload_signing=signing)
    assert s3_config(location)["unsigned_payload"] is unsigned


def test_the_other_providers_are_opened_by_their_own_clients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    monkeypatch.setenv("GOOGLE_SKIP_SIGNATURE", "true")
    for service, kind in (("gcs", "GCSStore"), ("azure", "AzureStore")):
        store = open_store(Location(service, "bucket", "prefix"))
        assert type(store._once).__name__ == kind  # type: ignore[attr-defined]
    with pytest.raises(InvalidConfiguration, match="'ftp' is not a service"):
        open_store(Location("ftp", "bucket"))
