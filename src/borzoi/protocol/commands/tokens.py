"""Personal access tokens: always the caller's own.

::

    GetPersonalAccessTokens       no fields
    CreatePersonalAccessToken     name, u64 expiry (µs from now; 0 and u64 max: never)
    DeletePersonalAccessToken     name
    LoginWithPersonalAccessToken  name token

    TokenInfo                     name, u64 expiry_at (µs since the epoch; 0: never)
    Tokens                        TokenInfo × n, no count, in no order
    RawToken                      name token, shown this once
"""

from borzoi.protocol.commands.users import Identity
from borzoi.protocol.contract import Listing, Request
from borzoi.protocol.hiding import hiding
from borzoi.protocol.layout import NAME, U64, Fields
from borzoi.protocol.naming import NoFields, OfName


class TokenInfo(Fields):
    LAYOUT = (NAME, U64)
    name: str
    expiry_at: int


class Tokens(Listing):
    ITEM = TokenInfo
    tokens: tuple[TokenInfo, ...]


class RawToken(Fields):
    """The answer to a creation: the only time that a server shows the token."""

    LAYOUT = (NAME,)
    token: str
    __repr__ = hiding("token")


class GetPersonalAccessTokens(NoFields):
    RESPONSE = Tokens


class CreatePersonalAccessToken(Request):
    RESPONSE = RawToken
    LAYOUT = (NAME, U64)
    name: str
    expiry: int = 0


class DeletePersonalAccessToken(OfName): ...


class LoginWithPersonalAccessToken(Request):
    RESPONSE = Identity
    LAYOUT = (NAME,)
    token: str
    __repr__ = hiding("token")
