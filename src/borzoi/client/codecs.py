"""Values as payloads: bytes, text, JSON, msgspec structs, dataclasses, Pydantic models.

A producer and a consumer take a codec, or the class to build one for::

    client.producer("orders/events", codec=Order)
    client.consumer("orders/events", codec=Order, group="billing")
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec

from borzoi.client.messages import Message
from borzoi.model.errors import InvalidFormat

T = TypeVar("T")


class UndecodableMessage(InvalidFormat):
    """The codec of the reader cannot decode a payload; `received` is the message."""

    def __init__(self, message: str, received: Message) -> None:
        super().__init__(message)
        self.received = received


@dataclass(frozen=True, slots=True)
class Codec(Generic[T]):
    """Encodes and decodes values; `decode` raises `ValueError` for other bytes."""

    encode: Callable[[T], bytes]
    decode: Callable[[bytes], T]


def _same(value: bytes) -> bytes:
    return value


def _from_text(payload: bytes) -> str:
    return payload.decode()


BYTES: Final[Codec[bytes]] = Codec(_same, _same)
TEXT: Final[Codec[str]] = Codec(str.encode, _from_text)
JSON: Final[Codec[Any]] = Codec(msgspec.json.encode, msgspec.json.decode)


def codec_of(kind: type[T] | Codec[T]) -> Codec[T]:
    """Return the codec for values of a class: JSON with its fields and types."""
    if isinstance(kind, Codec):
        return kind
    if hasattr(kind, "model_validate_json") and hasattr(kind, "model_dump_json"):
        return _pydantic(kind)
    for known, codec in ((bytes, BYTES), (str, TEXT)):
        if kind is known:
            return codec  # type: ignore[return-value]
    try:
        decoder = msgspec.json.Decoder(kind)
    except TypeError as fault:
        raise InvalidFormat(f"there is no codec for {kind!r}: {fault}") from fault
    return Codec(msgspec.json.encode, decoder.decode)


def _pydantic(kind: Any) -> Codec[Any]:
    # Detected by its methods: Pydantic may not be installed, so its class cannot be imported.
    def encode(value: Any) -> bytes:
        text: str = value.model_dump_json()
        return text.encode()

    return Codec(encode, kind.model_validate_json)
