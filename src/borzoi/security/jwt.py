"""JSON Web Tokens: which users may call over HTTP, and until when.

::

    base64url(header) "." base64url(claims) "." base64url(signature)
    header   {"typ": "JWT", "alg": "HS256", "kid"?: …}
    claims   {"jti", "iss", "aud", "sub", "iat", "exp", "nbf"}        times in seconds

The server chooses the algorithm, never the token: a header that names another one, such as `none`,
is rejected before its signature is checked.
"""

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Awaitable, Callable, Collection
from secrets import token_bytes, token_urlsafe
from typing import Any, Final, Protocol, TypeVar

import msgspec

from borzoi.model.errors import InvalidAccessToken, InvalidConfiguration
from borzoi.model.value import Value

#: The lifetime of a token that never expires.
NEVER_SECONDS: Final = 1_000_000_000
#: Tokens of identity providers carry many claims; none needs more than this.
TOKEN_CHARACTERS_MAX: Final = 16 * 1024
#: Random characters in a generated secret.
SECRET_BYTES: Final = 48

HMAC_HASHES: Final[dict[str, Callable[..., Any]]] = {
    "HS256": hashlib.sha256,
    "HS384": hashlib.sha384,
    "HS512": hashlib.sha512,
}


class Key(Protocol):
    """Signs or verifies tokens."""

    @property
    def algorithm(self) -> str: ...

    def sign(self, data: bytes) -> bytes: ...

    def verifies(self, data: bytes, signature: bytes) -> bool: ...


class HmacKey(Value):
    """A secret that both sides know."""

    algorithm: str
    secret: bytes
    #: The secret to verify with, if it differs: for tokens of another issuer.
    checking_secret: bytes

    def __repr__(self) -> str:
        return f"HmacKey({self.algorithm})"

    def sign(self, data: bytes) -> bytes:
        return hmac.digest(self.secret, data, HMAC_HASHES[self.algorithm])

    def verifies(self, data: bytes, signature: bytes) -> bool:
        expected = hmac.digest(self.checking_secret, data, HMAC_HASHES[self.algorithm])
        return hmac.compare_digest(expected, signature)


def random_secret() -> str:
    """Generate a secret for a server without one: its tokens end with the process."""
    return token_urlsafe(SECRET_BYTES)


class JoseHeader(Value):
    alg: str
    typ: str = "JWT"
    kid: str | None = None


class Claims(Value, omit_defaults=True):
    """The claims of a token. The last two are borzoi's own; tokens of other issuers lack them."""

    iss: str
    aud: str | list[str]
    sub: str
    exp: float
    jti: str = ""
    iat: float = 0
    nbf: float = 0
    #: When the user was created, in microseconds: the token is invalid if another user has got
    #: the id since.
    born: int | None = None
    #: The hash of the personal access token that was exchanged for this one: they end together.
    pat: str | None = None


class Unverified(Value):
    """A parsed token that is not verified yet."""

    header: JoseHeader
    claims: Claims
    signed: bytes
    signature: bytes


class Policy(Value):
    """Which claims are accepted."""

    issuers: Collection[str]
    audiences: Collection[str]
    #: Allowed clock skew between issuer and server, in seconds.
    leeway: float = 5


class Issuing(Value):
    """How our own tokens are issued; times in seconds."""

    key: Key
    issuer: str
    audience: str
    lifetime: int
    not_before: int


class OtherIssuer(Protocol):
    """A trusted issuer of tokens; all of its tokens act as one user."""

    @property
    def user_id(self) -> int: ...

    def checked(self, token: Unverified, *, now: float) -> Awaitable[Claims]: ...


def issue(key: Key, claims: Claims) -> str:
    """Encode a token."""
    header = {"typ": "JWT", "alg": key.algorithm}
    signed = _text(msgspec.json.encode(header)) + b"." + _text(msgspec.json.encode(claims))
    return (signed + b"." + _text(key.sign(signed))).decode("ascii")


def taken_apart(token: str) -> Unverified:
    """Parse a token without verifying it."""
    if len(token) > TOKEN_CHARACTERS_MAX or not token.isascii():
        raise InvalidAccessToken("this is not a token")
    parts = token.encode("ascii").split(b".")
    if len(parts) != 3:
        raise InvalidAccessToken("a token has three parts")
    header = _document(parts[0], JoseHeader)
    claims = _document(parts[1], Claims)
    return Unverified(header, claims, parts[0] + b"." + parts[1], _bytes(parts[2]))


def checked(token: Unverified, key: Key, policy: Policy, *, now: float) -> Claims:
    """Return the claims of a token valid at `now`, in seconds; `InvalidAccessToken` otherwise."""
    if token.header.alg != key.algorithm:
        raise InvalidAccessToken(f"a token signed with {token.header.alg[:10]!r}")
    if not key.verifies(token.signed, token.signature):
        raise InvalidAccessToken("the signature is wrong")
    claims = token.claims
    if claims.exp + policy.leeway <= now:
        raise InvalidAccessToken("the token has expired")
    if max(claims.nbf, claims.iat) > now + policy.leeway:
        raise InvalidAccessToken("the token is not valid yet")
    if claims.iss not in policy.issuers:
        raise InvalidAccessToken(f"the issuer {claims.iss[:40]!r} is not trusted")
    audiences = [claims.aud] if isinstance(claims.aud, str) else claims.aud
    if not any(audience in policy.audiences for audience in audiences):
        raise InvalidAccessToken("the token is for another audience")
    return claims


def time_ordered_id(milliseconds: int) -> str:
    """A UUID of version 7 as text: unique, and sorted by time."""
    value = (milliseconds & 0xFFFF_FFFF_FFFF) << 80 | int.from_bytes(token_bytes(10), "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def hmac_key(algorithm: str, encoding: str, decoding: str, *, base64: bool) -> HmacKey:
    """Return the key of two settings, one of which may be empty; a random one if both are."""
    signing = encoding or decoding or random_secret()
    checking = decoding or signing
    if not (encoding or decoding) or not base64:
        return HmacKey(algorithm, signing.encode(), checking.encode())
    return HmacKey(algorithm, secret_bytes(signing), secret_bytes(checking))


def secret_bytes(text: str) -> bytes:
    """Decode a Base64 secret, with either alphabet."""
    try:
        return _bytes(text.strip().rstrip("=").translate({43: 45, 47: 95}).encode())
    except (InvalidAccessToken, UnicodeEncodeError):
        raise InvalidConfiguration(
            "http.jwt.use_base64_secret is true, but a secret is not Base64"
        ) from None


T = TypeVar("T")


def _document(part: bytes, shape: type[T]) -> T:
    try:
        return msgspec.json.decode(_bytes(part), type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidAccessToken("a part of the token cannot be read") from None


def _text(data: bytes) -> bytes:
    return urlsafe_b64encode(data).rstrip(b"=")


def _bytes(text: bytes) -> bytes:
    try:
        decoded = urlsafe_b64decode(text + b"=" * (-len(text) % 4))
    except Base64Error:
        raise InvalidAccessToken("a part of the token is not Base64") from None
    # The decoder ignores invalid characters: two texts would be the same token.
    if _text(decoded) != text:
        raise InvalidAccessToken("a part of the token is not Base64")
    return decoded
