"""The bodies and queries that requests arrive in.

Each class is the JSON of one body (or the parameters of one query) and knows the arguments of the
request it stands for, both ways. What msgspec cannot say about a field is checked in
``__post_init__``; a `ValueError` there is a wrong shape. What the protocol has a status for is
raised by `arguments`, once the shape is right.
"""

from typing import Annotated, Any, Generic, Self, TypeAlias, TypeVar

import msgspec

from borzoi.model.errors import (
    BorzoiError,
    InvalidCommand,
    InvalidGroupName,
    InvalidReplicationFactor,
    InvalidStreamName,
    InvalidTopicName,
    TooManyPartitions,
)
from borzoi.model.identifiers import checked_identifier
from borzoi.model.limits import (
    NAME_BYTES_MAX,
    PARTITIONS_PER_REQUEST_MAX,
    SERVER_DEFAULT,
    U8_MAX,
    U32_MAX,
    U64_MAX,
)
from borzoi.model.system import SnapshotKind
from borzoi.model.value import like
from borzoi.protocol.commands.groups import CreateConsumerGroup
from borzoi.protocol.commands.partitions import CreatePartitions, DeletePartitions
from borzoi.protocol.commands.segments import DeleteSegments
from borzoi.protocol.commands.streams import CreateStream, UpdateStream
from borzoi.protocol.commands.system import GetSnapshot
from borzoi.protocol.commands.topics import CreateTopic, UpdateTopic
from borzoi.protocol.commands.users import (
    ChangePassword,
    CreateUser,
    LoginUser,
    UpdatePermissions,
    UpdateUser,
)
from borzoi.protocol.rest.permissions import (
    PermissionsDocument,
    permissions_document,
    permissions_of,
)
from borzoi.protocol.rest.words import (
    COMPRESSIONS,
    SNAPSHOT_COMPRESSIONS,
    SNAPSHOT_KINDS,
    USER_STATUSES,
)

U8: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=U8_MAX)]
U32: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=U32_MAX)]
#: The upper end is beyond what msgspec can bound; `Input` looks after it.
U64: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]

Arguments: TypeAlias = dict[str, object]
R = TypeVar("R")


class Input(msgspec.Struct, Generic[R]):
    """A body or a query whose fields are called like the arguments of its request."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, int) and value > U64_MAX:
                raise ValueError(f"{name} does not fit 64 bits")

    def arguments(self, *, now: int) -> Arguments:
        """Return the arguments of the request besides its path; `now` is the default timestamp."""
        return msgspec.structs.asdict(self)

    @classmethod
    def of(cls, request: R) -> Self:
        """The input that `arguments` reads the request out of again."""
        return like(cls, request)


def _named(name: str, fault: type[BorzoiError]) -> str:
    if not 1 <= len(name.encode()) <= NAME_BYTES_MAX:
        raise fault(f"a name has 1 to {NAME_BYTES_MAX} bytes: {name[:40]!r}")
    return name


# ---- logins and users ---------------------------------------------------------------------------


class LoginInput(Input[LoginUser]):
    username: str
    password: str
    version: str | None = None
    context: str | None = None

    def arguments(self, *, now: int) -> Arguments:
        return {
            "username": checked_identifier(self.username),
            "password": self.password,
            "version": self.version or "",
            "context": self.context or "",
        }


class TokenInput(Input[Any]):
    token: str


class TokenNameInput(Input[Any]):
    name: str
    expiry: U64 = 0


class CreateUserInput(Input[CreateUser]):
    username: str
    password: str
    status: str
    permissions: PermissionsDocument | None = None

    def __post_init__(self) -> None:
        USER_STATUSES.member(self.status)

    def arguments(self, *, now: int) -> Arguments:
        return {
            "username": self.username,
            "password": self.password,
            "status": USER_STATUSES.member(self.status),
            "permissions": permissions_of(self.permissions),
        }

    @classmethod
    def of(cls, request: CreateUser) -> Self:
        return cls(
            request.username,
            request.password,
            USER_STATUSES.word(request.status),
            permissions_document(request.permissions),
        )


class UpdateUserInput(Input[UpdateUser]):
    username: str | None = None
    status: str | None = None

    def __post_init__(self) -> None:
        self.arguments(now=0)

    def arguments(self, *, now: int) -> Arguments:
        status = None if self.status is None else USER_STATUSES.member(self.status)
        return {"username": self.username, "status": status}

    @classmethod
    def of(cls, request: UpdateUser) -> Self:
        status = None if request.status is None else USER_STATUSES.word(request.status)
        return cls(request.username, status)


class PermissionsInput(Input[UpdatePermissions]):
    permissions: PermissionsDocument | None = None

    def arguments(self, *, now: int) -> Arguments:
        return {"permissions": permissions_of(self.permissions)}

    @classmethod
    def of(cls, request: UpdatePermissions) -> Self:
        return cls(permissions_document(request.permissions))


class PasswordInput(Input[ChangePassword]):
    current_password: str
    new_password: str


# ---- the server ---------------------------------------------------------------------------------


class SnapshotInput(Input[GetSnapshot]):
    compression: str
    snapshot_types: list[str]

    def __post_init__(self) -> None:
        SNAPSHOT_COMPRESSIONS.member(self.compression)
        for word in self.snapshot_types:
            SNAPSHOT_KINDS.member(word)

    def arguments(self, *, now: int) -> Arguments:
        kinds = tuple(map(SNAPSHOT_KINDS.member, self.snapshot_types))
        if SnapshotKind.ALL in kinds and len(kinds) > 1:
            raise InvalidCommand("a snapshot of everything names nothing else")
        return {"compression": SNAPSHOT_COMPRESSIONS.member(self.compression), "kinds": kinds}

    @classmethod
    def of(cls, request: GetSnapshot) -> Self:
        kinds = [SNAPSHOT_KINDS.word(kind) for kind in request.kinds]
        return cls(SNAPSHOT_COMPRESSIONS.word(request.compression), kinds)


# ---- streams, topics, partitions, segments, groups ----------------------------------------------


class StreamInput(Input[CreateStream | UpdateStream]):
    name: str

    def arguments(self, *, now: int) -> Arguments:
        return {"name": _named(self.name, InvalidStreamName)}


class TopicInput(Input[CreateTopic | UpdateTopic]):
    compression_algorithm: str
    message_expiry: U64
    max_topic_size: U64
    name: str
    replication_factor: U8 | None = None

    def __post_init__(self) -> None:
        Input.__post_init__(self)
        COMPRESSIONS.member(self.compression_algorithm.lower())

    def arguments(self, *, now: int) -> Arguments:
        if self.replication_factor == 0:
            raise InvalidReplicationFactor("a topic has at least one replica")
        return {
            "name": _named(self.name, InvalidTopicName),
            "compression": COMPRESSIONS.member(self.compression_algorithm.lower()),
            "message_expiry": self.message_expiry,
            "max_topic_size": self.max_topic_size,
            "replication_factor": self.replication_factor or SERVER_DEFAULT,
        }

    @classmethod
    def of(cls, request: CreateTopic | UpdateTopic) -> Self:
        return like(
            cls,
            request,
            compression_algorithm=COMPRESSIONS.word(request.compression),
            replication_factor=request.replication_factor or None,
        )


class CreateTopicInput(Input[CreateTopic]):
    partitions_count: U32
    compression_algorithm: str
    message_expiry: U64
    max_topic_size: U64
    name: str
    replication_factor: U8 | None = None

    def __post_init__(self) -> None:
        self._settings()

    def _settings(self) -> TopicInput:
        return like(TopicInput, self)

    def arguments(self, *, now: int) -> Arguments:
        if self.partitions_count > PARTITIONS_PER_REQUEST_MAX:
            raise TooManyPartitions(f"{self.partitions_count} partitions in one request")
        return {"partitions_count": self.partitions_count, **self._settings().arguments(now=now)}

    @classmethod
    def of(cls, request: CreateTopic) -> Self:
        return like(cls, TopicInput.of(request), partitions_count=request.partitions_count)


class PartitionsInput(Input[CreatePartitions | DeletePartitions]):
    partitions_count: U32

    def arguments(self, *, now: int) -> Arguments:
        if not 1 <= self.partitions_count <= PARTITIONS_PER_REQUEST_MAX:
            raise TooManyPartitions(f"{self.partitions_count} partitions in one request")
        return {"partitions_count": self.partitions_count}


class SegmentsInput(Input[DeleteSegments]):
    segments_count: U32


class GroupInput(Input[CreateConsumerGroup]):
    name: str

    def arguments(self, *, now: int) -> Arguments:
        return {"name": _named(self.name, InvalidGroupName)}
