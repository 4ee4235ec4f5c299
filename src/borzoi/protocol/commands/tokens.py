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

from typing import ClassVar, Self

from borzoi.model.value import Value
from borzoi.protocol.buffers import Reader, Writer
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.users import Identity
from borzoi.protocol.contract import Listing, RequestValue, Response
from borzoi.protocol.hiding import hiding
from borzoi.protocol.naming import NoFields, OfName


class TokenInfo(Value):
    name: str
    expiry_at: int

    def encode(self, out: Writer) -> None:
        out.name(self.name).u64(self.expiry_at)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        return cls(reader.name(), reader.u64())


class Tokens(Listing):
    ITEM = TokenInfo
    tokens: tuple[TokenInfo, ...]


class _Token(Value):
    token: str
    __repr__ = hiding("token")

    def encode(self, out: Writer) -> None:
        out.name(self.token)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        return cls(reader.name())


class RawToken(_Token):
    """The answer to a creation: the only time that a server shows the token."""


class GetPersonalAccessTokens(NoFields):
    CODE = Code.GET_PERSONAL_ACCESS_TOKENS
    RESPONSE: ClassVar[type[Response] | None] = Tokens


class CreatePersonalAccessToken(RequestValue):
    CODE = Code.CREATE_PERSONAL_ACCESS_TOKEN
    RESPONSE: ClassVar[type[Response] | None] = RawToken
    name: str
    expiry: int = 0

    def encode(self, out: Writer) -> None:
        out.name(self.name).u64(self.expiry)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        return cls(reader.name(), reader.u64())


class DeletePersonalAccessToken(OfName):
    CODE = Code.DELETE_PERSONAL_ACCESS_TOKEN


class LoginWithPersonalAccessToken(_Token):
    CODE: ClassVar[Code] = Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN
    RESPONSE: ClassVar[type[Response] | None] = Identity
