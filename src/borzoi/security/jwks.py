"""RSA keys, of our own and of other issuers: PEM in settings, JSON Web Key Sets by file or URL."""

import asyncio
import logging
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.error import URLError
from urllib.parse import unquote, urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, build_opener

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from borzoi.model.errors import InvalidAccessToken, InvalidConfiguration
from borzoi.security.jwt import Claims, Policy, Unverified, checked, secret_bytes

log = logging.getLogger(__name__)

RSA_HASHES: Final[Mapping[str, type[hashes.HashAlgorithm]]] = {
    "RS256": hashes.SHA256,
    "RS384": hashes.SHA384,
    "RS512": hashes.SHA512,
}
RSA_BITS_MIN: Final = 2048
#: A set of keys is a few kilobytes; more than this is something else.
DOCUMENT_BYTES_MAX: Final = 1 << 20
KEYS_MAX: Final = 100
FETCH_SECONDS_MAX: Final = 5.0
#: Minimum interval between fetches because of an unknown key.
FETCH_AGAIN_SECONDS: Final = 30.0
#: Keys are fetched again after this long: the issuer may have revoked one.
KEEP_SECONDS: Final = 3600.0


class RsaKey:
    """Signs with the private key, verifies with the public one."""

    def __init__(
        self, algorithm: str, public: rsa.RSAPublicKey, private: rsa.RSAPrivateKey | None = None
    ) -> None:
        self.algorithm = algorithm
        self._public = public
        self._private = private
        self._hash = RSA_HASHES[algorithm]

    def sign(self, data: bytes) -> bytes:
        if self._private is None:
            raise InvalidAccessToken("there is no key to sign with")
        return self._private.sign(data, padding.PKCS1v15(), self._hash())

    def verifies(self, data: bytes, signature: bytes) -> bool:
        try:
            self._public.verify(signature, data, padding.PKCS1v15(), self._hash())
        except InvalidSignature:
            return False
        return True


def rsa_key(algorithm: str, encoding: str, decoding: str, *, base64: bool) -> RsaKey:
    """Return the key of two settings: a private key in PEM, and a public one if it differs."""
    if not encoding:
        raise InvalidConfiguration(
            f"http.jwt.encoding_secret: {algorithm} needs a private key in PEM"
        )
    private = _loaded("encoding_secret", encoding, base64=base64)
    if not isinstance(private, rsa.RSAPrivateKey):
        raise InvalidConfiguration("http.jwt.encoding_secret is not a private RSA key")
    public = _loaded("decoding_secret", decoding, base64=base64) if decoding else private
    if isinstance(public, rsa.RSAPrivateKey):
        public = public.public_key()
    if public.key_size < RSA_BITS_MIN:
        raise InvalidConfiguration(f"http.jwt: an RSA key has at least {RSA_BITS_MIN} bits")
    return RsaKey(algorithm, public, private)


def _loaded(name: str, text: str, *, base64: bool) -> rsa.RSAPrivateKey | rsa.RSAPublicKey:
    pem = secret_bytes(text) if base64 else text.encode()
    try:
        if b"PRIVATE" in pem:
            key: object = serialization.load_pem_private_key(pem, None)
        else:
            key = serialization.load_pem_public_key(pem)
    except (ValueError, TypeError) as fault:
        raise InvalidConfiguration(f"http.jwt.{name} is not an RSA key in PEM: {fault}") from None
    if not isinstance(key, rsa.RSAPrivateKey | rsa.RSAPublicKey):
        raise InvalidConfiguration(f"http.jwt.{name} is a key, but not an RSA key")
    return key


# ---- other issuers ------------------------------------------------------------------------------


class _Jwk(msgspec.Struct):
    kty: str
    kid: str | None = None
    use: str | None = None
    alg: str | None = None
    n: str = ""
    e: str = ""


class _KeySet(msgspec.Struct):
    keys: list[_Jwk]


def decode_key_set(document: bytes) -> dict[str | None, tuple[rsa.RSAPublicKey, str | None]]:
    """Return the RSA signing keys of a set, by their id, with their algorithm if given.

    `ValueError` if it is not a key set.
    """
    keys: dict[str | None, tuple[rsa.RSAPublicKey, str | None]] = {}
    for key in msgspec.json.decode(document, type=_KeySet).keys[:KEYS_MAX]:
        if key.kty != "RSA" or key.use not in (None, "sig"):
            continue
        modulus, exponent = _number(key.n), _number(key.e)
        if modulus.bit_length() >= RSA_BITS_MIN:
            keys[key.kid] = (rsa.RSAPublicNumbers(exponent, modulus).public_key(), key.alg)
    return keys


def _number(text: str) -> int:
    return int.from_bytes(urlsafe_b64decode(text + "=" * (-len(text) % 4)), "big")


class TrustedIssuer:
    """Another issuer of tokens; all of them act as one user."""

    def __init__(
        self,
        issuer: str,
        audience: str,
        jwks_url: str,
        user_id: int,
        *,
        leeway: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.issuer = issuer
        self.user_id = user_id
        self._policy = Policy((issuer,), (audience,), leeway)
        self._url = jwks_url
        self._clock = clock
        self._keys: dict[str | None, tuple[rsa.RSAPublicKey, str | None]] = {}
        self._fetched_at: float | None = None
        self._tried_at: float | None = None
        self._fetching = asyncio.Lock()

    async def checked(self, token: Unverified, *, now: float) -> Claims:
        """Return the claims of a token of this issuer; `InvalidAccessToken` otherwise."""
        algorithm = token.header.alg
        if algorithm not in RSA_HASHES:
            raise InvalidAccessToken(f"a token signed with {algorithm[:10]!r}")
        public, only = await self._key(token.header.kid)
        if only not in (None, algorithm):
            raise InvalidAccessToken("the key is for another algorithm")
        return checked(token, RsaKey(algorithm, public), self._policy, now=now)

    async def _key(self, kid: str | None) -> tuple[rsa.RSAPublicKey, str | None]:
        async with self._fetching:
            is_old = self._fetched_at is None or self._clock() - self._fetched_at > KEEP_SECONDS
            if (is_old or kid not in self._keys) and self._may_try():
                self._tried_at = self._clock()
                try:
                    self._keys = await asyncio.to_thread(fetched_keys, self._url)
                    self._fetched_at = self._clock()
                except (OSError, ValueError) as fault:
                    log.warning("could not fetch the keys of issuer %s: %s", self.issuer, fault)
        found = self._keys.get(kid)
        if found is None:
            raise InvalidAccessToken("the issuer has no such key")
        return found

    def _may_try(self) -> bool:
        return self._tried_at is None or self._clock() - self._tried_at > FETCH_AGAIN_SECONDS


def fetched_keys(url: str) -> dict[str | None, tuple[rsa.RSAPublicKey, str | None]]:
    """Fetch the keys at an address; blocks, and raises `OSError` or `ValueError`."""
    return decode_key_set(fetched(url))


def fetched(url: str) -> bytes:
    """Fetch the document at a ``file:``, ``http:`` or ``https:`` address; blocks."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        with Path(unquote(parts.path)).open("rb") as file:
            document = file.read(DOCUMENT_BYTES_MAX + 1)
    else:
        try:
            with _opener().open(url, timeout=FETCH_SECONDS_MAX) as answer:
                document = answer.read(DOCUMENT_BYTES_MAX + 1)
        except URLError as fault:
            raise OSError(str(fault)) from fault
    if len(document) > DOCUMENT_BYTES_MAX:
        raise ValueError(f"{url} has more than {DOCUMENT_BYTES_MAX} bytes")
    return document


class _StayingPut(HTTPRedirectHandler):
    """Follow no redirects: keys come only from the configured address."""

    def redirect_request(self, *_: object) -> None:
        return None


def _opener() -> OpenerDirector:
    return build_opener(_StayingPut())
