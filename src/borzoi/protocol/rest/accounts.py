"""Users, logins, tokens and connected clients as JSON."""

from typing import Self

import msgspec

from borzoi.model.value import Value
from borzoi.protocol.commands.system import ClientDetails, ClientGroup, ClientInfo
from borzoi.protocol.commands.tokens import RawToken, TokenInfo
from borzoi.protocol.commands.users import UserDetails, UserInfo
from borzoi.protocol.hiding import hiding
from borzoi.protocol.rest.mirroring import Converted, Document, items, mirrors, word
from borzoi.protocol.rest.permissions import (
    PermissionsDocument,
    permissions_document,
    permissions_of,
)
from borzoi.protocol.rest.words import TRANSPORTS, USER_STATUSES


class AccessIdentity(Value):
    """Who logged in, and the token that says so from now on; `expiry` is in seconds."""

    user_id: int
    token: str
    expiry: int
    __repr__ = hiding("token")


class AccessToken(msgspec.Struct):
    token: str
    expiry: int


class IdentityDocument(msgspec.Struct):
    user_id: int
    access_token: AccessToken

    @classmethod
    def of(cls, identity: AccessIdentity) -> Self:
        return cls(identity.user_id, AccessToken(identity.token, identity.expiry))

    def response(self) -> AccessIdentity:
        return AccessIdentity(self.user_id, self.access_token.token, self.access_token.expiry)


@mirrors(UserInfo, word("status", "status", USER_STATUSES))
class UserDocument(Document):
    id: int
    created_at: int
    status: str
    username: str


@mirrors(UserDetails, Converted("permissions", "permissions", permissions_document, permissions_of))
class UserDetailsDocument(UserDocument):
    permissions: PermissionsDocument | None = None


@mirrors(TokenInfo, Converted("expiry_at", "expiry_at", lambda at: at or None, lambda at: at or 0))
class TokenDocument(Document):
    """On the wire a token that never expires says 0, here it says null."""

    name: str
    expiry_at: int | None = None


@mirrors(RawToken)
class RawTokenDocument(Document):
    token: str


@mirrors(ClientInfo, word("transport", "transport", TRANSPORTS))
class ClientDocument(Document):
    client_id: int
    user_id: int | None
    address: str
    transport: str
    consumer_groups_count: int


@mirrors(ClientGroup)
class ClientGroupDocument(Document):
    stream_id: int
    topic_id: int
    group_id: int


@mirrors(ClientDetails, items("consumer_groups", ClientGroupDocument))
class ClientDetailsDocument(ClientDocument):
    consumer_groups: list[ClientGroupDocument] = msgspec.field(default_factory=list)
