"""User headers as JSON: a list of pairs, each half a kind and the Base64 of its bytes.

::

    [{"key": {"kind": "string", "value": base64}, "value": {"kind": "int32", "value": base64}}]

The bytes of a header are the same here and on the wire, so nothing is converted and a
reader can write the block back bit by bit. A block that pairs cannot stand for is Base64 as a
whole.
"""

from typing import Self, TypeAlias

import msgspec

from borzoi.model.errors import InvalidBatch
from borzoi.model.limits import USER_HEADER_BYTES_MAX
from borzoi.protocol.rest.words import HEADER_KINDS
from borzoi.records.user_headers import (
    PREFIX,
    HeaderValue,
    decode_user_headers,
    encode_user_headers,
)


class HeaderHalf(msgspec.Struct):
    kind: str
    value: bytes

    def __post_init__(self) -> None:
        HEADER_KINDS.member(self.kind)
        if not 1 <= len(self.value) <= USER_HEADER_BYTES_MAX:
            raise ValueError(f"a key or value has 1 to {USER_HEADER_BYTES_MAX} bytes")

    @classmethod
    def of(cls, header: HeaderValue) -> Self:
        return cls(HEADER_KINDS.word(header.kind), header.data)

    def header(self) -> HeaderValue:
        return HeaderValue(HEADER_KINDS.member(self.kind), self.value)


class HeaderPair(msgspec.Struct):
    key: HeaderHalf
    value: HeaderHalf


#: The document of a block: its pairs, or Base64 if it cannot be read.
HeadersDocument: TypeAlias = list[HeaderPair] | bytes


def headers_document(block: bytes) -> HeadersDocument:
    """The pairs of a block in the order they are stored in, or the block itself."""
    try:
        headers = decode_user_headers(block)
    except InvalidBatch:
        return block
    pairs = [HeaderPair(HeaderHalf.of(key), HeaderHalf.of(value)) for key, value in headers.items()]
    # A key that is stored twice is one pair less; then only the bytes tell everything.
    return pairs if headers_block(pairs) == block else block


def headers_block(document: HeadersDocument | None) -> bytes:
    """The block of a document, in the order of the document."""
    if not isinstance(document, list):
        return document or b""
    halves = [half.header() for pair in document for half in (pair.key, pair.value)]
    return b"".join(PREFIX.pack(half.kind, len(half.data)) + half.data for half in halves)


def sorted_headers_block(document: HeadersDocument | None) -> bytes:
    """The block with each key once (the last one given) and in the order of the clients."""
    if not isinstance(document, list):
        return headers_block(document)
    return encode_user_headers({pair.key.header(): pair.value.header() for pair in document})
