"""Messages as a client receives them, made without a server."""

from borzoi.client import Message
from borzoi.records.user_headers import PlainValue, encode_user_headers, user_headers


def message(
    payload: str | bytes = "", offset: int = 0, *, partition: int = 0, **headers: PlainValue
):
    """A message at an offset; its time is the offset in seconds after the epoch."""
    return Message(
        partition=partition,
        checksum=0,
        id_bytes=(offset + 1).to_bytes(16, "little"),
        offset=offset,
        timestamp=offset * 1_000_000,
        origin_timestamp=offset * 1_000_000,
        payload=payload.encode() if isinstance(payload, str) else payload,
        encoded_headers=encoded(headers),
    )


def encoded(headers: dict[str, PlainValue]) -> bytes:
    return encode_user_headers(user_headers(headers)) if headers else b""
