"""Messages as a client receives them, made without a server."""

from collections.abc import Sequence

import msgspec

from borzoi.client import Message
from borzoi.records.columnar import Run, run_of
from borzoi.records.message import Message as SentMessage
from borzoi.records.message import encode_messages
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


def polled_run(
    messages: Sequence[SentMessage], *, headers: dict[str, PlainValue] | None = None
) -> Run:
    """The messages as a poll brings them, at offsets from 0 on; all with the same headers."""
    sent = [msgspec.structs.replace(one, user_headers=encoded(headers or {})) for one in messages]
    run = run_of(bytearray(encode_messages(sent)[1]))
    run.headers["offset"] = range(len(sent))
    for place, start in enumerate(run.starts.tolist()):
        run.buffer[start + 24 : start + 32] = place.to_bytes(8, "little")
    return run
