"""Commands as bytes, for the state log and for the way between shards.

::

    body      MessagePack array [version, fields]
    version   1
    fields    MessagePack map from field name to value, fields by the names of the command's class:
              identifiers are integers or strings, enums their numbers, permissions nested maps

The code stored with the body is the number of the command on the wire; internal commands have
numbers far above those. A command with a secret has no encoding but
its sealed one. A field added later needs a default; anything else needs a new version.
"""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec

from borzoi.metadata.groups import (
    ClientGone,
    CompleteRevocation,
    ExpireRevocations,
    JoinGroup,
    LeaveGroup,
    VolatileCommand,
)
from borzoi.metadata.sealed import (
    SealedChangePassword,
    SealedCreatePersonalAccessToken,
    SealedCreateUser,
)
from borzoi.metadata.tokens import ExpireTokens
from borzoi.model.errors import InvalidCommand, StateCorrupted
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.groups import CreateConsumerGroup, DeleteConsumerGroup
from borzoi.protocol.commands.partitions import CreatePartitions, DeletePartitions
from borzoi.protocol.commands.streams import CreateStream, DeleteStream, PurgeStream, UpdateStream
from borzoi.protocol.commands.tokens import DeletePersonalAccessToken
from borzoi.protocol.commands.topics import CreateTopic, DeleteTopic, PurgeTopic, UpdateTopic
from borzoi.protocol.commands.users import DeleteUser, UpdatePermissions, UpdateUser

VERSION: Final = 1

LoggedCommand: TypeAlias = (
    SealedCreateUser
    | DeleteUser
    | UpdateUser
    | UpdatePermissions
    | SealedChangePassword
    | SealedCreatePersonalAccessToken
    | DeletePersonalAccessToken
    | ExpireTokens
    | CreateStream
    | DeleteStream
    | UpdateStream
    | PurgeStream
    | CreateTopic
    | DeleteTopic
    | UpdateTopic
    | PurgeTopic
    | CreatePartitions
    | DeletePartitions
    | CreateConsumerGroup
    | DeleteConsumerGroup
)
Command: TypeAlias = LoggedCommand | VolatileCommand


class InternalCode(IntEnum):
    """Numbers of the commands that no client can send."""

    EXPIRE_TOKENS = 60_001
    CLIENT_GONE = 60_002
    COMPLETE_REVOCATION = 60_003
    EXPIRE_REVOCATIONS = 60_004


# fmt: off
LOGGED: Final[Mapping[int, type[LoggedCommand]]] = MappingProxyType({
    Code.CREATE_USER:                  SealedCreateUser,
    Code.DELETE_USER:                  DeleteUser,
    Code.UPDATE_USER:                  UpdateUser,
    Code.UPDATE_PERMISSIONS:           UpdatePermissions,
    Code.CHANGE_PASSWORD:              SealedChangePassword,
    Code.CREATE_PERSONAL_ACCESS_TOKEN: SealedCreatePersonalAccessToken,
    Code.DELETE_PERSONAL_ACCESS_TOKEN: DeletePersonalAccessToken,
    InternalCode.EXPIRE_TOKENS:        ExpireTokens,
    Code.CREATE_STREAM:                CreateStream,
    Code.DELETE_STREAM:                DeleteStream,
    Code.UPDATE_STREAM:                UpdateStream,
    Code.PURGE_STREAM:                 PurgeStream,
    Code.CREATE_TOPIC:                 CreateTopic,
    Code.DELETE_TOPIC:                 DeleteTopic,
    Code.UPDATE_TOPIC:                 UpdateTopic,
    Code.PURGE_TOPIC:                  PurgeTopic,
    Code.CREATE_PARTITIONS:            CreatePartitions,
    Code.DELETE_PARTITIONS:            DeletePartitions,
    Code.CREATE_CONSUMER_GROUP:        CreateConsumerGroup,
    Code.DELETE_CONSUMER_GROUP:        DeleteConsumerGroup,
})
VOLATILE: Final[Mapping[int, type[VolatileCommand]]] = MappingProxyType({
    Code.JOIN_CONSUMER_GROUP:          JoinGroup,
    Code.LEAVE_CONSUMER_GROUP:         LeaveGroup,
    InternalCode.CLIENT_GONE:          ClientGone,
    InternalCode.COMPLETE_REVOCATION:  CompleteRevocation,
    InternalCode.EXPIRE_REVOCATIONS:   ExpireRevocations,
})
# fmt: on

_CODES: Final[Mapping[type[Command], int]] = MappingProxyType(
    {kind: int(code) for table in (LOGGED, VOLATILE) for code, kind in table.items()}
)
#: Permissions hold read-only views of dicts, which MessagePack does not know.
_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=dict)
_ENVELOPE: Final = msgspec.msgpack.Decoder(tuple[int, msgspec.Raw])
_DECODERS: Final[Mapping[int, msgspec.msgpack.Decoder[Command]]] = MappingProxyType(
    {code: msgspec.msgpack.Decoder(kind) for kind, code in _CODES.items()}
)


def is_logged(command: Command) -> bool:
    """Whether the command has to be in the log before it is applied."""
    return not isinstance(command, VolatileCommand)


def encode_command(command: Command) -> tuple[int, bytes]:
    """The number of the command and its body."""
    code = _CODES.get(type(command))
    if code is None:
        # The command may hold a secret, so only its kind is named.
        raise InvalidCommand(f"{type(command).__name__} is not a command of the state machine")
    return code, _ENCODER.encode((VERSION, command))


def decode_command(code: int, body: bytes | memoryview) -> Command:
    """The command that `encode_command` made the body of."""
    decoder = _DECODERS.get(code)
    if decoder is None:
        raise StateCorrupted(f"no command of the state machine has the number {code}")
    try:
        version, fields = _ENVELOPE.decode(body)
        if version != VERSION:
            raise StateCorrupted(f"command {code} was written in version {version} of its format")
        return decoder.decode(fields)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StateCorrupted(f"command {code} cannot be read: {error}") from error
