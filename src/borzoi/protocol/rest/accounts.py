"""Users, logins, tokens and connected clients as JSON."""

from typing import Self

import msgspec

from borzoi.model.value import Value
from borzoi.protocol.commands.system import ClientDetails, ClientGroup, ClientInfo
from borzoi.protocol.commands.tokens import RawToken, TokenInfo
from borzoi.protocol.commands.users import UserDetails, UserInfo
from borzoi.protocol.hiding import hiding
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


class UserDocument(msgspec.Struct):
    id: int
    created_at: int
    status: str
    username: str

    @classmethod
    def of(cls, user: UserInfo | UserDetails) -> Self:
        return cls(user.id, user.created_at, USER_STATUSES.word(user.status), user.username)

    def response(self) -> UserInfo:
        status = USER_STATUSES.member(self.status)
        return UserInfo(self.id, self.created_at, status, self.username)


class UserDetailsDocument(UserDocument):
    permissions: PermissionsDocument | None = None

    @classmethod
    def of_details(cls, user: UserDetails) -> Self:
        document = cls.of(user)
        document.permissions = permissions_document(user.permissions)
        return document

    def details(self) -> UserDetails:
        user = self.response()
        permissions = permissions_of(self.permissions)
        return UserDetails(user.id, user.created_at, user.status, user.username, permissions)


class TokenDocument(msgspec.Struct):
    """On the wire a token that never expires says 0, here it says null."""

    name: str
    expiry_at: int | None = None

    @classmethod
    def of(cls, token: TokenInfo) -> Self:
        return cls(token.name, token.expiry_at or None)

    def response(self) -> TokenInfo:
        return TokenInfo(self.name, self.expiry_at or 0)


class RawTokenDocument(msgspec.Struct):
    token: str

    @classmethod
    def of(cls, token: RawToken) -> Self:
        return cls(token.token)

    def response(self) -> RawToken:
        return RawToken(self.token)


class ClientDocument(msgspec.Struct):
    client_id: int
    user_id: int | None
    address: str
    transport: str
    consumer_groups_count: int

    @classmethod
    def of(cls, client: ClientInfo | ClientDetails) -> Self:
        return cls(
            client.client_id,
            client.user_id,
            client.address,
            TRANSPORTS.word(client.transport),
            client.consumer_groups_count,
        )

    def response(self) -> ClientInfo:
        return ClientInfo(
            self.client_id,
            self.user_id,
            TRANSPORTS.member(self.transport),
            self.address,
            self.consumer_groups_count,
        )


class ClientGroupDocument(msgspec.Struct):
    stream_id: int
    topic_id: int
    group_id: int


class ClientDetailsDocument(ClientDocument):
    consumer_groups: list[ClientGroupDocument] = []

    @classmethod
    def of_details(cls, client: ClientDetails) -> Self:
        document = cls.of(client)
        document.consumer_groups = [
            ClientGroupDocument(group.stream_id, group.topic_id, group.group_id)
            for group in client.consumer_groups
        ]
        return document

    def details(self) -> ClientDetails:
        groups = tuple(
            ClientGroup(group.stream_id, group.topic_id, group.group_id)
            for group in self.consumer_groups
        )
        transport = TRANSPORTS.member(self.transport)
        return ClientDetails(self.client_id, self.user_id, transport, self.address, groups)
