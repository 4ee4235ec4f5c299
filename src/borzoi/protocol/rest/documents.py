"""The JSON that answers carry, to and from the response values.

`encode_document` is for the server, `decode_document` for a client; `DOCUMENTS` is the whole of
what can be said. Timestamps are numbers of microseconds and every u64 is a number; a list answers
with a bare array.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from borzoi.model.errors import InvalidFormat
from borzoi.model.topics import Compression
from borzoi.protocol.commands.groups import GroupDetails, Groups
from borzoi.protocol.commands.messages import PolledMessages
from borzoi.protocol.commands.offsets import ConsumerOffset
from borzoi.protocol.commands.streams import StreamDetails, Streams
from borzoi.protocol.commands.system import ClientDetails, Clients, ClusterMetadata, Stats
from borzoi.protocol.commands.tokens import RawToken, Tokens
from borzoi.protocol.commands.topics import TopicDetails, Topics
from borzoi.protocol.commands.users import UserDetails, Users
from borzoi.protocol.rest.accounts import (
    AccessIdentity,
    ClientDetailsDocument,
    ClientDocument,
    IdentityDocument,
    RawTokenDocument,
    TokenDocument,
    UserDetailsDocument,
    UserDocument,
)
from borzoi.protocol.rest.messages import PolledDocument, polled_document, polled_of
from borzoi.protocol.rest.resources import (
    GroupDetailsDocument,
    GroupDocument,
    OffsetDocument,
    StreamDetailsDocument,
    StreamDocument,
    TopicDetailsDocument,
    TopicDocument,
)
from borzoi.protocol.rest.system import ClusterDocument, StatsDocument
from borzoi.protocol.rest.words import COMPRESSIONS


class DocumentShape:
    """How one type of response is written and read."""

    __slots__ = ("document", "document_of", "read", "response_of")

    def __init__(
        self,
        document: Any,
        document_of: Callable[[Any], object],
        response_of: Callable[[Any], object],
    ) -> None:
        #: The type of the JSON.
        self.document = document
        self.read = msgspec.json.Decoder(document).decode
        self.document_of = document_of
        self.response_of = response_of


def _one(document: Any) -> DocumentShape:
    return DocumentShape(document, document.of, document.response)


def _many(
    collection: Callable[[Any], object],
    items: str,
    document: Any,
    order: Callable[[Any], Any] | None = None,
) -> DocumentShape:
    def document_of(response: object) -> object:
        each: Iterable[object] = getattr(response, items)
        return [document.of(item) for item in (sorted(each, key=order) if order else each)]

    return DocumentShape(
        list[document],
        document_of,
        lambda documents: collection(tuple(each.response() for each in documents)),
    )


#: Every response that is JSON over HTTP; the others are texts, archives or nothing.
DOCUMENTS: Final[Mapping[type, DocumentShape]] = MappingProxyType(
    {
        AccessIdentity: _one(IdentityDocument),
        Streams: _many(Streams, "streams", StreamDocument),
        StreamDetails: _one(StreamDetailsDocument),
        Topics: _many(Topics, "topics", TopicDocument),
        TopicDetails: _one(TopicDetailsDocument),
        Groups: _many(Groups, "groups", GroupDocument),
        GroupDetails: _one(GroupDetailsDocument),
        ConsumerOffset: _one(OffsetDocument),
        PolledMessages: DocumentShape(PolledDocument, polled_document, polled_of),
        Users: _many(Users, "users", UserDocument),
        UserDetails: _one(UserDetailsDocument),
        Tokens: _many(Tokens, "tokens", TokenDocument, lambda token: token.name),
        RawToken: _one(RawTokenDocument),
        Clients: _many(Clients, "clients", ClientDocument, lambda client: client.client_id),
        ClientDetails: _one(ClientDetailsDocument),
        ClusterMetadata: _one(ClusterDocument),
        Stats: _one(StatsDocument),
    }
)


def encode_document(response: object, *, all_compressions: bool = False) -> bytes:
    """The JSON of a response.

    The published clients refuse a topic that says LZ4 or ZSTD, so GZIP is said instead unless
    `all_compressions` says that the client knows them.
    """
    document = DOCUMENTS[type(response)].document_of(response)
    if not all_compressions:
        for topic in _topics_in(document):
            if topic.compression_algorithm not in _KNOWN_TO_ALL:
                topic.compression_algorithm = COMPRESSIONS.word(Compression.GZIP)
    return msgspec.json.encode(document)


_KNOWN_TO_ALL: Final = frozenset(map(COMPRESSIONS.word, (Compression.NONE, Compression.GZIP)))


def _topics_in(document: object) -> Iterable[TopicDocument]:
    match document:
        case TopicDocument():
            return (document,)
        case StreamDetailsDocument():
            return document.topics
        case list():
            return (each for each in document if isinstance(each, TopicDocument))
    return ()


def decode_document(response: type, body: bytes) -> Any:
    """Decode a response from a JSON body; `InvalidFormat` if that fails."""
    shape = DOCUMENTS[response]
    try:
        return shape.response_of(shape.read(body))
    except (msgspec.DecodeError, ValueError, RecursionError) as fault:
        raise InvalidFormat(f"this is not a {response.__name__}: {fault}") from None
