"""Keys of RSA: our own, and those other issuers publish."""

import base64
import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from borzoi.model.errors import InvalidAccessToken, InvalidConfiguration
from borzoi.security import jwks
from borzoi.security.jwks import (
    DOCUMENT_BYTES_MAX,
    RsaKey,
    TrustedIssuer,
    decode_key_set,
    fetched,
    rsa_key,
)
from borzoi.security.jwt import Claims, HmacKey, issue, taken_apart

NOW = 1_800_000_000.0
PRIVATE = rsa.generate_private_key(65537, 2048)
OTHER = rsa.generate_private_key(65537, 2048)
CLAIMS = Claims("them", "us", "somebody", NOW + 60, iat=NOW)


def pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


def public_pem(key: rsa.RSAPrivateKey) -> str:
    return (
        key.public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        .decode()
    )


def text(number: int) -> str:
    data = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def jwk(key: rsa.RSAPrivateKey, kid: str | None, **more: str) -> dict[str, object]:
    numbers = key.public_key().public_numbers()
    return {"kty": "RSA", "kid": kid, "n": text(numbers.n), "e": text(numbers.e), **more}


def document(*keys: dict[str, object]) -> bytes:
    return json.dumps({"keys": list(keys)}).encode()


def token(key: rsa.RSAPrivateKey, kid: str | None, claims: Claims = CLAIMS) -> str:
    """A token whose header names its key."""
    signer = RsaKey("RS256", key.public_key(), key)
    header = base64.urlsafe_b64encode(json.dumps({"alg": "RS256", "kid": kid}).encode())
    signed = header.rstrip(b"=").decode() + "." + issue(signer, claims).split(".")[1]
    signature = base64.urlsafe_b64encode(signer.sign(signed.encode())).rstrip(b"=").decode()
    return f"{signed}.{signature}"


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512"])
def test_a_token_is_signed_with_one_half_and_checked_with_the_other(algorithm: str) -> None:
    signer = rsa_key(algorithm, pem(PRIVATE), public_pem(PRIVATE), base64=False)
    signature = signer.sign(b"data")
    assert signer.verifies(b"data", signature)
    assert not signer.verifies(b"data!", signature)
    assert not RsaKey(algorithm, OTHER.public_key()).verifies(b"data", signature)
    with pytest.raises(InvalidAccessToken):
        RsaKey(algorithm, PRIVATE.public_key()).sign(b"data")


def test_a_private_key_alone_does_for_both_also_as_base64() -> None:
    encoded = base64.b64encode(pem(PRIVATE).encode()).decode()
    signer = rsa_key("RS256", encoded, "", base64=True)
    assert signer.verifies(b"data", signer.sign(b"data"))


@pytest.mark.parametrize(
    ("encoding", "decoding"),
    [
        ("", ""),
        ("no key", ""),
        (public_pem(PRIVATE), ""),
        (pem(ec.generate_private_key(ec.SECP256R1())), ""),
        (pem(PRIVATE), "no key"),
        (pem(rsa.generate_private_key(65537, 1024)), ""),
    ],
)
def test_keys_that_cannot_work_are_told_before_a_start(encoding: str, decoding: str) -> None:
    with pytest.raises(InvalidConfiguration, match=r"http\.jwt"):
        rsa_key("RS256", encoding, decoding, base64=False)


def test_a_set_has_the_keys_that_sign() -> None:
    keys = decode_key_set(
        document(
            jwk(PRIVATE, "one", alg="RS256"),
            jwk(OTHER, "two", use="sig"),
            jwk(OTHER, "for secrets", use="enc"),
            {"kty": "EC", "kid": "a curve", "crv": "P-256", "x": "AA", "y": "AA"},
            jwk(rsa.generate_private_key(65537, 1024), "short"),
        )
    )
    assert {kid: only for kid, (_, only) in keys.items()} == {"one": "RS256", "two": None}


@pytest.mark.parametrize("wrong", [b"", b"[]", b"{}", b'{"keys": 1}', b"\xff", b'{"keys":[{}]}'])
def test_what_is_no_set_is_refused(wrong: bytes) -> None:
    with pytest.raises(ValueError):
        decode_key_set(wrong)


async def test_a_token_of_an_issuer_is_checked_with_its_keys(tmp_path: Path) -> None:
    (tmp_path / "keys of them.json").write_bytes(document(jwk(PRIVATE, "one")))
    url = (tmp_path / "keys of them.json").as_uri()
    issuer = TrustedIssuer("them", "us", url, 3, leeway=5)
    assert await issuer.checked(taken_apart(token(PRIVATE, "one")), now=NOW) == CLAIMS
    hmac_token = issue(HmacKey("HS256", b"x", b"x"), CLAIMS)
    wrong = [
        token(OTHER, "one"),
        token(PRIVATE, "two"),
        token(PRIVATE, None),
        hmac_token,
        token(PRIVATE, "one", Claims("them", "others", "x", NOW + 60)),
        token(PRIVATE, "one", Claims("them", "us", "x", NOW - 60)),
    ]
    for each in wrong:
        with pytest.raises(InvalidAccessToken):
            await issuer.checked(taken_apart(each), now=NOW)


async def test_new_keys_are_looked_for_but_not_at_every_word(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(document(jwk(PRIVATE, "one", alg="RS512")))
    moment = [0.0]
    issuer = TrustedIssuer("them", "us", path.as_uri(), 3, leeway=5, clock=lambda: moment[0])
    with pytest.raises(InvalidAccessToken, match="another algorithm"):
        await issuer.checked(taken_apart(token(PRIVATE, "one")), now=NOW)
    path.write_bytes(document(jwk(OTHER, "two")))
    moment[0] = 10.0
    with pytest.raises(InvalidAccessToken, match="no such key"):
        await issuer.checked(taken_apart(token(OTHER, "two")), now=NOW)
    moment[0] = 40.0
    assert await issuer.checked(taken_apart(token(OTHER, "two")), now=NOW)
    path.unlink()
    moment[0] = 5000.0  # the keys are old, but those we have are better than none
    assert await issuer.checked(taken_apart(token(OTHER, "two")), now=NOW)


@contextmanager
def serving(answers: dict[str, tuple[int, bytes]]) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answers[self.path]
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "/keys")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_keys_come_from_where_the_operator_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwks, "FETCH_SECONDS_MAX", 2.0)
    keys = document(jwk(PRIVATE, "one"))
    answers = {
        "/keys": (200, keys),
        "/moved": (302, b""),
        "/gone": (404, b""),
        "/large": (200, b"x" * (DOCUMENT_BYTES_MAX + 1)),
    }
    with serving(answers) as address:
        assert fetched(address + "/keys") == keys
        for path in ("/moved", "/gone"):
            with pytest.raises(OSError, match="HTTP Error"):
                fetched(address + path)
        with pytest.raises(ValueError, match="more than"):
            fetched(address + "/large")
    with pytest.raises(OSError):
        fetched(address + "/keys")
