"""Tokens to sessions: HTTP has no connections to log in on, so each call carries its caller."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

import msgspec

from borzoi.handlers.sessions import NOBODY, Session
from borzoi.metadata import queries
from borzoi.metadata.state import Metadata, User
from borzoi.model.errors import InvalidAccessToken
from borzoi.model.system import TransportKind
from borzoi.model.users import UserStatus
from borzoi.model.value import Value
from borzoi.protocol.rest.accounts import AccessIdentity
from borzoi.security.jwt import (
    Claims,
    Issuing,
    OtherIssuer,
    Policy,
    checked,
    issue,
    taken_apart,
    time_ordered_id,
)

SECOND_US: Final = 1_000_000
#: The scheme exactly as the published servers accept it, with one space.
BEARER: Final = "Bearer "
#: Clients repeat their token, so a verified signature is cached. When the cache is full it is
#: cleared.
KNOWN_MAX: Final = 4096


class Revocations(Protocol):
    """The ids of tokens that were revoked before they expired; they outlive the process."""

    def __contains__(self, token_id: object) -> bool: ...

    def add(self, token_id: str, expiry: int) -> Awaitable[None]:
        """Revoke a token; returns when that is durable."""


class Caller(Value):
    """The caller of one call, and its token."""

    session: Session
    claims: Claims | None = None
    #: Whether the token is one of ours.
    ours: bool = True


def _stay() -> None:
    """There is no connection to hang up: the next call is rejected instead."""


def stranger(address: str) -> Caller:
    """A caller without a token, for calls that need none."""
    return Caller(Session(NOBODY, address, TransportKind.HTTP, _stay, 0.0))


class Authenticator:
    """Issues, verifies and revokes tokens."""

    def __init__(
        self,
        issuing: Issuing,
        policy: Policy,
        others: Mapping[str, OtherIssuer],
        revocations: Revocations,
        state: Callable[[], Metadata],
        clock: Callable[[], int],
    ) -> None:
        self._issuing = issuing
        self._policy = policy
        self._others = others
        self._revocations = revocations
        self._state = state
        #: Microseconds since the epoch.
        self._clock = clock
        self._known: dict[str, Claims] = {}

    def identity(self, session: Session) -> AccessIdentity:
        """Issue a token for the user that has just logged in on the session."""
        assert session.user_id is not None
        user = self._state().users.get(session.user_id)
        return self._issued(session.user_id, user, session.token_hash)

    def _issued(self, user_id: int, user: User | None, pat: str | None) -> AccessIdentity:
        issuing, now_us = self._issuing, self._clock()
        now = now_us // SECOND_US
        claims = Claims(
            issuing.issuer,
            issuing.audience,
            str(user_id),
            now + issuing.lifetime,
            time_ordered_id(now_us // 1000),
            now,
            now + issuing.not_before,
            None if user is None else user.created_at,
            pat,
        )
        return AccessIdentity(user_id, issue(issuing.key, claims), int(claims.exp))

    async def caller(self, authorization: str | None, address: str) -> Caller:
        """Return the caller of an `Authorization` header, or raise `InvalidAccessToken`."""
        if authorization is None or not authorization.startswith(BEARER):
            raise InvalidAccessToken("a token is needed")
        return await self._caller(authorization[len(BEARER) :], address)

    async def _caller(self, token: str, address: str) -> Caller:
        known = self._known.get(token)
        if known is not None and known.exp > self._clock() / SECOND_US:
            claims, user_id, ours = known, int(known.sub), True
        else:
            claims, user_id, ours = await self._checked(token)
        if claims.jti in self._revocations:
            raise InvalidAccessToken("the token was revoked")
        user = self._state().users.get(user_id)
        # The token of a deleted user is accepted, but has no permissions. If its id was given to
        # another user since, the token must not act for that user.
        if user is not None and (
            user.status is not UserStatus.ACTIVE or claims.born not in (None, user.created_at)
        ):
            raise InvalidAccessToken("the user of the token was deleted or is inactive")
        if claims.pat is not None:
            self._check_exchanged(claims.pat)
        session = Session(NOBODY, address, TransportKind.HTTP, _stay, 0.0, user_id, claims.pat)
        return Caller(session, claims, ours)

    def _check_exchanged(self, token_hash: str) -> None:
        """A token that was exchanged for a personal one ends with it."""
        found = queries.token_owner(self._state(), token_hash)
        if found is None or found[1].has_expired(self._clock()):
            raise InvalidAccessToken("the personal access token behind this token was deleted")

    async def _checked(self, token: str) -> tuple[Claims, int, bool]:
        """Return the claims of a token, its user, and whether it is ours."""
        now = self._clock() / SECOND_US
        parts = taken_apart(token)
        other = self._others.get(parts.claims.iss)
        if other is not None:
            claims = await other.checked(parts, now=now)
            # Ignore our private claims in tokens of other issuers.
            return msgspec.structs.replace(claims, born=None, pat=None), other.user_id, False
        claims = checked(parts, self._issuing.key, self._policy, now=now)
        if not (claims.sub.isascii() and claims.sub.isdigit()):
            raise InvalidAccessToken("the token names no user")
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known[token] = claims
        return claims, int(claims.sub), True

    def is_still_good(self, caller: Caller) -> bool:
        """Whether the token of a long call is still valid."""
        claims = caller.claims
        if claims is None:
            return False
        return claims.exp > self._clock() / SECOND_US and claims.jti not in self._revocations

    async def refreshed(self, token: str, address: str) -> AccessIdentity:
        """Exchange a valid token for a new one; the old one is revoked."""
        caller = await self._caller(token, address)
        if not caller.ours:
            raise InvalidAccessToken("only the issuer of the token can renew it")
        session = caller.session
        assert session.user_id is not None
        user = self._state().users.get(session.user_id)
        if user is None:
            raise InvalidAccessToken("the user of the token was deleted")
        await self.give_back(caller)
        return self._issued(session.user_id, user, session.token_hash)

    async def give_back(self, caller: Caller) -> None:
        """Revoke the caller's token, durably."""
        claims = caller.claims
        if claims is None or not claims.jti:
            raise InvalidAccessToken("a token without an id cannot be revoked")
        # With clock skew a token is accepted slightly longer than it says.
        await self._revocations.add(claims.jti, int(claims.exp + self._policy.leeway) + 1)
