"""Users, their permissions and their logins.

::

    GetUser            identifier user_id
    GetUsers           no fields
    CreateUser         name username, str8 password, u8 status, sized permissions
    DeleteUser         identifier user_id
    UpdateUser         identifier user_id, u8 flag [name username], u8 flag [u8 status]
                       (1: present, anything else: absent)
    UpdatePermissions  identifier user_id, sized permissions (absent: removes them all)
    ChangePassword     identifier user_id, str8 current_password, str8 new_password
    LoginUser          name username, str8 password, str32 version, str32 context
                       (a payload that ends after the password is accepted: both are empty)
    LogoutUser         no fields

    UserInfo           u32 id, u64 created_at, u8 status, name username
    UserDetails        UserInfo, then u8 1, u32 length, permissions, or four zero bytes
    Users              UserInfo × n, no count
    Identity           u32 user_id
"""

import struct
from typing import Final, Self

from borzoi.model.identifiers import Identifier
from borzoi.model.users import Permissions, UserStatus
from borzoi.model.value import Value
from borzoi.protocol.buffers import Reader, Writer
from borzoi.protocol.contract import Listing, Request
from borzoi.protocol.hiding import hiding
from borzoi.protocol.layout import IDENTIFIER, NAME, STR8, U32, Fields
from borzoi.protocol.naming import NoFields, OfUser
from borzoi.protocol.values import (
    SIZED_PERMISSIONS,
    STATUS,
    read_sized_permissions,
    read_status,
    write_sized_permissions,
)

_USER: Final = struct.Struct("<IQ")

#: A flag byte of 0 and three bytes of padding: the published decoders ask for all four.
_NO_PERMISSIONS: Final = bytes(4)


class UserInfo(Value):
    id: int
    created_at: int
    status: UserStatus
    username: str

    def encode(self, out: Writer) -> None:
        _write_user(out, self)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        user_id, created_at = reader.unpack(_USER)
        return cls(user_id, created_at, read_status(reader), reader.name())


class UserDetails(Value):
    id: int
    created_at: int
    status: UserStatus
    username: str
    permissions: Permissions | None

    def encode(self, out: Writer) -> None:
        _write_user(out, self)
        if self.permissions is None:
            out.bytes(_NO_PERMISSIONS)
        else:
            write_sized_permissions(out, self.permissions)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        user_id, created_at = reader.unpack(_USER)
        status, username = read_status(reader), reader.name()
        return cls(user_id, created_at, status, username, read_sized_permissions(reader))


def _write_user(out: Writer, user: UserInfo | UserDetails) -> None:
    out.pack(_USER, user.id, user.created_at).u8(user.status).name(user.username)


class Users(Listing):
    ITEM = UserInfo
    users: tuple[UserInfo, ...]


class Identity(Fields):
    """The user that a session is logged in as."""

    LAYOUT = (U32,)
    user_id: int


class GetUser(OfUser):
    RESPONSE = UserDetails


class GetUsers(NoFields):
    RESPONSE = Users


class CreateUser(Request):
    RESPONSE = UserDetails
    LAYOUT = (NAME, STR8, STATUS, SIZED_PERMISSIONS)
    username: str
    password: str
    status: UserStatus = UserStatus.ACTIVE
    permissions: Permissions | None = None
    __repr__ = hiding("password")


class DeleteUser(OfUser): ...


class UpdateUser(Request):
    """None leaves a field unchanged."""

    user_id: Identifier
    username: str | None = None
    status: UserStatus | None = None

    def encode(self, out: Writer) -> None:
        out.identifier(self.user_id).bool(self.username is not None)
        if self.username is not None:
            out.name(self.username)
        out.bool(self.status is not None)
        if self.status is not None:
            out.u8(self.status)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        user_id = reader.identifier()
        username = reader.name() if reader.u8() == 1 else None
        status = read_status(reader) if reader.u8() == 1 else None
        return cls(user_id, username, status)


class UpdatePermissions(Request):
    LAYOUT = (IDENTIFIER, SIZED_PERMISSIONS)
    user_id: Identifier
    permissions: Permissions | None = None


class ChangePassword(Request):
    LAYOUT = (IDENTIFIER, STR8, STR8)
    user_id: Identifier
    current_password: str
    new_password: str
    __repr__ = hiding("current_password", "new_password")


class LoginUser(Request):
    RESPONSE = Identity
    username: str
    password: str
    version: str = ""
    context: str = ""
    __repr__ = hiding("password")

    def encode(self, out: Writer) -> None:
        out.name(self.username).str8(self.password).str32(self.version).str32(self.context)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        username, password = reader.name(), reader.str8()
        if not reader.remaining():
            return cls(username, password)
        return cls(username, password, reader.str32(), reader.str32())


class LogoutUser(NoFields): ...
