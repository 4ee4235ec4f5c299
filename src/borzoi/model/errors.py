"""The exception tree: families by what the caller would do, classes where someone would differ.

::

    BorzoiError
    ├── InvalidRequest            the request can never succeed as it stands: fix the caller
    │   ├── InvalidCommand InvalidFormat InvalidIdentifier InvalidNumber
    │   ├── InvalidUsername InvalidPassword InvalidTokenName InvalidClientId
    │   ├── InvalidStreamName InvalidTopicName InvalidGroupName InvalidTopicSize
    │   ├── InvalidReplicationFactor TooManyPartitions InvalidPartitionsCount InvalidKeyLength
    │   ├── InvalidConnectionString
    │   └── InvalidBatch          a faulty batch of messages
    │       ├── InvalidMessagesCount NonZeroIndexOffset NonZeroIndexTimestamp MissingIndex
    │       ├── PayloadTooBig UserHeadersTooBig InvalidOffset InvalidIndexPosition
    │       ├── InvalidMessagesSize InvalidReservedField MessageTooSmall
    │       └── InvalidHeaderKey InvalidHeaderValue InvalidHeaderKind
    ├── NotFound                  the thing named is not there
    │   ├── ResourceNotFound ClientNotFound StreamNotFound TopicNotFound PartitionNotFound
    │   ├── SegmentNotFound ConsumerOffsetNotFound GroupNotFound MemberNotFound
    │   └── NoPartitions ConsumerNotResolved
    ├── AlreadyExists             the name is taken
    │   └── UserNameTaken TokenNameTaken StreamNameTaken TopicNameTaken GroupNameTaken
    ├── LimitReached              a bound of the server, not of the request
    │   └── TokensLimitReached UsersLimitReached TopicFull
    ├── AccessDenied              the caller lacks a permission
    │   ├── Unauthenticated Unauthorized InvalidCredentials UserInactive
    │   ├── InvalidToken TokenExpired InvalidAccessToken
    │   └── CannotDeleteRoot CannotChangeRootPermissions
    ├── ConnectionLost            ask again, perhaps elsewhere
    │   ├── Disconnected StaleClient CannotConnect
    │   ├── ShardUnavailable          the connection stays
    │   └── RequestTimeout            (TimeoutError as well)
    ├── ClientClosed              the client, producer or consumer was closed by its own program
    │   └── ProducerClosed
    ├── BufferFull                the buffer of a producer is full
    ├── InvalidVersion            what answers does not speak this protocol
    ├── FeatureUnavailable        this server does not do that
    ├── StorageFailure            the medium failed or holds damage
    │   └── InvalidChecksum StateCorrupted CannotSync DiskFull
    │       PartitionDeleted (NotFound as well)
    ├── EncryptionFailure         key or ciphertext does not fit
    │   └── InvalidEncryptionKey CannotEncrypt CannotDecrypt
    ├── InvalidConfiguration      the server refuses to start with these settings
    └── ServerError               any other status code, kept as its number

``protocol/errors.py`` holds the one table that gives each class its status code, its HTTP status
and the field it is about.
"""


class BorzoiError(Exception):
    """Everything borzoi raises on purpose."""

    #: The status of the protocol, and its name: 1009 and "stream_id_not_found". Each class gets its
    #: own from the table in ``protocol/errors.py``; a family without one has that of its parent.
    code: int = 1
    name: str = "error"

    @property
    def message(self) -> str:
        """The message that says what is wrong."""
        return str(self)


class InvalidRequest(BorzoiError): ...


class InvalidCommand(InvalidRequest): ...


class InvalidFormat(InvalidRequest): ...


class InvalidIdentifier(InvalidRequest): ...


class InvalidNumber(InvalidRequest): ...


class InvalidUsername(InvalidRequest): ...


class InvalidPassword(InvalidRequest): ...


class InvalidTokenName(InvalidRequest): ...


class InvalidClientId(InvalidRequest): ...


class InvalidStreamName(InvalidRequest): ...


class InvalidTopicName(InvalidRequest): ...


class InvalidGroupName(InvalidRequest): ...


class InvalidTopicSize(InvalidRequest): ...


class InvalidReplicationFactor(InvalidRequest): ...


class TooManyPartitions(InvalidRequest): ...


class InvalidPartitionsCount(InvalidRequest): ...


class InvalidKeyLength(InvalidRequest): ...


class InvalidConnectionString(InvalidRequest): ...


class InvalidBatch(InvalidRequest): ...


class InvalidMessagesCount(InvalidBatch): ...


class NonZeroIndexOffset(InvalidBatch): ...


class NonZeroIndexTimestamp(InvalidBatch): ...


class MissingIndex(InvalidBatch): ...


class PayloadTooBig(InvalidBatch): ...


class UserHeadersTooBig(InvalidBatch): ...


class InvalidOffset(InvalidBatch): ...


class InvalidIndexPosition(InvalidBatch): ...


class InvalidMessagesSize(InvalidBatch): ...


class InvalidReservedField(InvalidBatch): ...


class MessageTooSmall(InvalidBatch): ...


class InvalidHeaderKey(InvalidBatch): ...


class InvalidHeaderValue(InvalidBatch): ...


class InvalidHeaderKind(InvalidBatch): ...


class NotFound(BorzoiError): ...


class ResourceNotFound(NotFound): ...


class ClientNotFound(NotFound): ...


class StreamNotFound(NotFound): ...


class TopicNotFound(NotFound): ...


class PartitionNotFound(NotFound): ...


class NoPartitions(NotFound): ...


class SegmentNotFound(NotFound): ...


class ConsumerOffsetNotFound(NotFound): ...


class ConsumerNotResolved(NotFound): ...


class GroupNotFound(NotFound): ...


class MemberNotFound(NotFound): ...


class AlreadyExists(BorzoiError): ...


class UserNameTaken(AlreadyExists): ...


class TokenNameTaken(AlreadyExists): ...


class StreamNameTaken(AlreadyExists): ...


class TopicNameTaken(AlreadyExists): ...


class GroupNameTaken(AlreadyExists): ...


class LimitReached(BorzoiError): ...


class TokensLimitReached(LimitReached): ...


class UsersLimitReached(LimitReached): ...


class TopicFull(LimitReached): ...


class AccessDenied(BorzoiError): ...


class Unauthenticated(AccessDenied): ...


class Unauthorized(AccessDenied): ...


class InvalidCredentials(AccessDenied): ...


class UserInactive(AccessDenied): ...


class InvalidToken(AccessDenied): ...


class TokenExpired(AccessDenied): ...


class InvalidAccessToken(AccessDenied): ...


class CannotDeleteRoot(AccessDenied): ...


class CannotChangeRootPermissions(AccessDenied): ...


class ConnectionLost(BorzoiError): ...


class Disconnected(ConnectionLost): ...


class StaleClient(ConnectionLost): ...


class CannotConnect(ConnectionLost):
    """No connection could be made: nothing was sent."""


class ShardUnavailable(ConnectionLost):
    """The process of the server that had to execute the request died or did not come back in time:
    the request may have been executed. The process is replaced, and the connection stays open."""


class RequestTimeout(ConnectionLost, TimeoutError):
    """No answer in time: the server may have executed the request, or may still do so."""


class ClientClosed(BorzoiError): ...


class ProducerClosed(ClientClosed): ...


class BufferFull(BorzoiError): ...


class InvalidVersion(BorzoiError): ...


class FeatureUnavailable(BorzoiError): ...


class StorageFailure(BorzoiError): ...


class InvalidChecksum(StorageFailure): ...


class StateCorrupted(StorageFailure): ...


class CannotSync(StorageFailure): ...


class DiskFull(StorageFailure):
    """There is no space: the same may succeed later, and nothing is damaged."""


class PartitionDeleted(PartitionNotFound, StorageFailure):
    """The partition was deleted while a write was pending."""


class EncryptionFailure(BorzoiError): ...


class InvalidEncryptionKey(EncryptionFailure): ...


class CannotEncrypt(EncryptionFailure): ...


class CannotDecrypt(EncryptionFailure): ...


class InvalidConfiguration(BorzoiError): ...


class ServerError(BorzoiError):
    """A status without a class; it keeps its number."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(message or f"the server answered with status {code}")
        self.code = code
