"""Messages as lines of JSON, a batch at a time.

A payload that is a JSON object or array stays one in its line, so every payload that looks like one
has to be checked. All of a batch are checked by one call of the decoder: joined by commas they are
an array, and they are sound if the elements found in it have the lengths of the payloads.
"""

from itertools import repeat
from typing import Any, Final, Literal

import msgspec
import numpy as np

from borzoi.cli.output import plain
from borzoi.records.accelerator import native
from borzoi.records.columnar import Run
from borzoi.records.user_headers import decode_user_headers


class Line(msgspec.Struct, gc=False):
    """A message as a line of JSON, the document that `tail -o jsonl` shows."""

    partition: int
    offset: int
    timestamp: int
    origin_timestamp: int
    id: str
    headers: dict[str, Any]
    #: Text, or JSON as it was sent.
    payload: str | msgspec.Raw


_encoder: Final = msgspec.json.Encoder()
_value: Final = msgspec.json.Decoder(msgspec.Raw)
_array: Final = msgspec.json.Decoder(list[msgspec.Raw])
_no_headers: Final[dict[str, Any]] = {}
#: The byte order of ids, as often as it is needed.
_LITTLE: Final["repeat[Literal['little']]"] = repeat("little")
#: What JSON objects and arrays begin with.
_OBJECT: Final = ord("{")
_ARRAY: Final = ord("[")


def lines_of(partition: int, run: Run) -> bytes | bytearray:
    """The lines of the messages."""
    if native is not None:
        written = native.json_lines(run.buffer, run.starts, partition)
        if written is not None:
            return written
    headers = run.headers
    return _encoder.encode_lines(
        list(
            map(
                Line,
                repeat(partition),
                headers["offset"].tolist(),
                headers["timestamp"].tolist(),
                headers["origin_timestamp"].tolist(),
                ids_of(run),
                headers_of(run),
                _payloads(run),
            )
        )
    )


def ids_of(run: Run) -> list[str]:
    """The ids as decimal numbers, which is how the published command line shows them."""
    numbers = map(int.from_bytes, run.headers["id"].tolist(), _LITTLE)
    return list(map(str, numbers))


def headers_of(run: Run) -> list[dict[str, Any]]:
    """The user headers of each message with the values that JSON has."""
    if not run.headers["user_headers_length"].any():
        return [_no_headers] * run.count
    bounds = zip(run.payload_ends.tolist(), run.ends.tolist(), strict=True)
    return [_headers(bytes(run.buffer[start:end])) for start, end in bounds]


def _headers(encoded: bytes) -> dict[str, Any]:
    pairs = decode_user_headers(encoded) if encoded else {}
    return {str(key.value): plain(value.value) for key, value in pairs.items()}


def payloads_of(run: Run) -> list[memoryview]:
    """Views of the payloads."""
    buffer = run.buffer
    bounds = zip(run.payload_starts.tolist(), run.payload_ends.tolist(), strict=True)
    return [buffer[start:end] for start, end in bounds]


def texts_of(payloads: list[memoryview]) -> list[str]:
    """The payloads as text; bytes that are no UTF-8 are replaced."""
    return [str(payload, "utf-8", "replace") for payload in payloads]


def _payloads(run: Run) -> list[str | msgspec.Raw]:
    payloads = payloads_of(run)
    found: list[str | msgspec.Raw] = []
    if _look_like_json(run):
        found += _sound_on_one_line(payloads)
    return found or [_payload(text) for text in texts_of(payloads)]


def _look_like_json(run: Run) -> bool:
    """Whether all payloads begin as JSON objects and arrays do."""
    if not run.headers["payload_length"].all():
        return False
    first = np.frombuffer(run.buffer, np.uint8)[run.payload_starts]
    return bool(((first == _OBJECT) | (first == _ARRAY)).all())


def _sound_on_one_line(payloads: list[memoryview]) -> list[msgspec.Raw]:
    """The payloads as JSON if each of them is a value on one line, else nothing."""
    joined = b"[%b]" % b",".join(payloads)
    if b"\n" in joined or b"\r" in joined:
        return []
    try:
        values = _array.decode(joined.decode())
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []
    return values if list(map(len, values)) == list(map(len, payloads)) else []


def _payload(text: str) -> str | msgspec.Raw:
    """A payload that is a JSON object or array stays one, but on one line."""
    if text[:1] in ("{", "["):
        try:
            if "\n" in text or "\r" in text:
                return msgspec.Raw(_encoder.encode(msgspec.json.decode(text)))
            _value.decode(text)
        except msgspec.MsgspecError:
            return text
        return msgspec.Raw(text.encode())
    return text
