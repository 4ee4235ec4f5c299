"""User headers as JSON: a list of pairs, each half a kind and the Base64 of its bytes.

::

    {"key": {"kind": "string", "value": base64}, "value": {"kind": "int32", "value": base64}}

    bytes of a pair    u8 kind, u32 length (1..255), key, u8 kind, u32 length (1..255), value

The bytes of a header are the same here and on the wire, so nothing is converted: a pair that was
read is written back bit by bit. A block that is no sequence of pairs stays Base64 as a whole.
"""

import struct
from typing import Final, TypeAlias

import msgspec

from borzoi.model.limits import USER_HEADER_BYTES_MAX

_HALF: Final = struct.Struct("<BI")

#: The word of kind n is the one at n - 1.
# fmt: off
KINDS: Final = (
    "raw", "string", "bool", "int8", "int16", "int32", "int64", "int128",
    "uint8", "uint16", "uint32", "uint64", "uint128", "float32", "float64",
)
# fmt: on
_CODES: Final = {word: code for code, word in enumerate(KINDS, start=1)}


class HeaderHalf(msgspec.Struct):
    kind: str
    value: bytes

    def __post_init__(self) -> None:
        if self.kind not in _CODES:
            raise ValueError(f"{self.kind[:40]!r} is none of {', '.join(KINDS)}")
        if not 1 <= len(self.value) <= USER_HEADER_BYTES_MAX:
            raise ValueError(f"a key or value has 1 to {USER_HEADER_BYTES_MAX} bytes")


class HeaderPair(msgspec.Struct):
    key: HeaderHalf
    value: HeaderHalf


#: What stands for a block: its pairs, or the Base64 of what is none.
HeadersDocument: TypeAlias = list[HeaderPair] | bytes


def headers_document(block: bytes) -> HeadersDocument:
    """The pairs of a block in the order they are stored in, or the block itself."""
    pairs: list[HeaderPair] = []
    position = 0
    try:
        while position < len(block):
            key, position = _read_half(block, position)
            value, position = _read_half(block, position)
            pairs.append(HeaderPair(key, value))
    except ValueError:
        return block
    return pairs


def headers_block(document: HeadersDocument | None) -> bytes:
    """The block a document stands for."""
    if not isinstance(document, list):
        return document or b""
    return b"".join(_half_bytes(pair.key) + _half_bytes(pair.value) for pair in document)


def sorted_headers_block(document: HeadersDocument | None) -> bytes:
    """The block with each key once (the last one given) and in the order of the clients."""
    if not isinstance(document, list):
        return headers_block(document)
    pairs = {(_CODES[pair.key.kind], pair.key.value): pair for pair in document}
    return headers_block([pair for _, pair in sorted(pairs.items(), key=lambda each: each[0])])


def _read_half(block: bytes, position: int) -> tuple[HeaderHalf, int]:
    start = position + _HALF.size
    if start > len(block):
        raise ValueError("a header is cut off")
    code, size = _HALF.unpack_from(block, position)
    if not 1 <= code <= len(KINDS) or start + size > len(block):
        raise ValueError("there is no such header")
    return HeaderHalf(KINDS[code - 1], block[start : start + size]), start + size


def _half_bytes(half: HeaderHalf) -> bytes:
    return _HALF.pack(_CODES[half.kind], len(half.value)) + half.value
