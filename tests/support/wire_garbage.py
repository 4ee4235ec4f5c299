"""Storms of damaged frames: every decoder has to refuse with an error of ours, or read.

A storm is a function of its seed. It takes good payloads and truncates, overwrites, splices and
extends them, or makes them up, and hands them to the decoder of a request or a response; some go
as frames, in pieces, through the frame decoders. Whatever a decoder accepts must survive being
written and read again.
"""

import random
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from borzoi.model.errors import BorzoiError
from borzoi.protocol.buffers import Reader
from borzoi.protocol.catalog import REQUESTS
from borzoi.protocol.codes import Code
from borzoi.protocol.contract import Request, Response, encode_payload
from borzoi.protocol.errors import code_of
from borzoi.protocol.framing import REQUEST_PREFIX, ResponseDecoder

#: The only statuses a decoder may refuse with: malformed, bad format, bad identifier (of a send),
#: too many partitions, bad key.
REFUSALS: Final = frozenset({3, 4, 6, 2015, 4028})

#: One stream of frames for this many payloads; it costs as much as several of them.
STREAM_EVERY: Final = 16
FRAMES_PER_STREAM: Final = 4

_EDGES: Final = (0, 1, 2, 3, 4, 5, 100, 127, 128, 254, 255)
_WIDE_EDGES: Final = tuple(
    number.to_bytes(4, "little") for number in (0, 1, 11, 2**16, 2**24, 2**31 - 1, 2**31, 2**32 - 1)
)

Decode = Callable[[Reader], Request | Response]


class Tally(NamedTuple):
    """What became of the frames of a storm; `foreign` are the faults that are not ours."""

    frames: int
    accepted: int
    refused: int
    foreign: tuple[str, ...]


class Sample(NamedTuple):
    """A good payload and what reads it."""

    name: str
    decode: Decode
    payload: bytes


def request_sample(frame: bytes) -> Sample | None:
    """The sample in a request frame, None when its code or its length is no good to begin with."""
    if len(frame) < REQUEST_PREFIX.size:
        return None
    _, code = REQUEST_PREFIX.unpack_from(frame)
    request = REQUESTS.get(code)
    if request is None:
        return None
    return Sample(request.__name__, request.decode, frame[REQUEST_PREFIX.size :])


def response_sample(response: Response) -> Sample:
    return Sample(type(response).__name__, type(response).decode, encode_payload(response))


def storm(seed: int, frames: int, samples: Sequence[Sample]) -> Tally:
    """That many damaged payloads and frames, the same ones for the same seed."""
    rng = random.Random(seed)
    kinds: dict[str, list[Sample]] = {}
    for sample in samples:
        kinds.setdefault(sample.name, []).append(sample)
    # Every kind as often as any other, however many samples there are of each.
    evenly = tuple(kinds.values())
    accepted = refused = done = 0
    foreign: list[str] = []
    while done < frames:
        if not done % STREAM_EVERY:
            done += FRAMES_PER_STREAM
            fault = _stream_fault(rng, samples)
            if fault:
                foreign.append(f"seed {seed}, frame {done}: {fault}")
        done += 1
        kind = evenly[int(rng.random() * len(evenly))]
        sample = kind[int(rng.random() * len(kind))]
        payload = damaged(rng, sample.payload, samples)
        try:
            if _survives(sample.decode, payload):
                accepted += 1
            else:
                foreign.append(f"seed {seed}: {sample.name} {payload.hex()} changes when rewritten")
        except BorzoiError as error:
            refused += 1
            if code_of(error) not in REFUSALS:
                foreign.append(f"seed {seed}: {sample.name} {payload.hex()}: {error!r}")
        except Exception as error:
            foreign.append(f"seed {seed}: {sample.name} {payload.hex()}: {error!r}")
    return Tally(done, accepted, refused, tuple(foreign))


def _survives(decode: Decode, payload: bytes) -> bool:
    """Is what the payload says the same after it was written and read again?"""
    value = decode(Reader(payload))
    try:
        written = encode_payload(value, all_compressions=True)
        return encode_payload(decode(Reader(written)), all_compressions=True) == written
    except BorzoiError:
        return False


def damaged(rng: random.Random, payload: bytes, samples: Sequence[Sample]) -> bytes:
    """The payload after one or two accidents."""
    kind = int(rng.random() * 7)
    at = int(rng.random() * (len(payload) + 1))
    if kind == 0:
        return rng.randbytes(at)
    if kind == 1:
        return payload[:at]
    if kind == 2:
        return payload[:at] + rng.randbytes(int(rng.random() * 9)) + payload[at:]
    if kind == 3:
        other = samples[int(rng.random() * len(samples))].payload
        return payload[:at] + other[int(rng.random() * len(other)) :]
    if kind == 4:
        return payload[:at] + _WIDE_EDGES[int(rng.random() * 8)] + payload[at + 4 :]
    changed = bytearray(payload)
    for _ in range(kind - 4):
        if changed:
            edge = _EDGES[int(rng.random() * len(_EDGES))]
            changed[int(rng.random() * len(changed))] = edge
    return bytes(changed)


def _stream_fault(rng: random.Random, samples: Sequence[Sample]) -> str | None:
    """What is wrong with how the decoder of answers took a damaged stream, None when nothing is."""
    codes = tuple(map(int, Code))
    stream = bytearray()
    for _ in range(FRAMES_PER_STREAM):
        sample = samples[int(rng.random() * len(samples))]
        payload = damaged(rng, sample.payload, samples)
        code = codes[int(rng.random() * len(codes))]
        stream += REQUEST_PREFIX.pack(4 + len(payload), code) + payload
    if rng.random() < 0.5:
        stream[int(rng.random() * len(stream))] ^= 1 << int(rng.random() * 8)
    responses = ResponseDecoder()
    try:
        for start in range(0, len(stream), step := 1 + int(rng.random() * 64)):
            responses.feed(stream[start : start + step])
            while responses.next_response():
                pass
    except Exception as error:
        return f"stream {stream.hex()}: {error!r}"
    return None
