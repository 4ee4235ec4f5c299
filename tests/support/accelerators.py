"""With and without the accelerator in one process, so that the two can be compared.

`said_of` is everything that both must agree on about some bytes. `damaged_requests` draws such
bytes faster than hypothesis can, for runs of millions::

    python -m tests.support.accelerators 10000000 1      # how many, and the first seed
"""

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from borzoi.cli import lines, sinks, sources
from borzoi.client import messages as client_messages
from borzoi.client import sending
from borzoi.listeners.binary import CHECKED_AT_ONCE_MAX
from borzoi.model.errors import BorzoiError
from borzoi.protocol.commands.messages import SEND_METADATA_BYTES_MAX, split_send
from borzoi.records import accelerator, batch, fresh_ids

#: For a test, or an example of one, that has something to compare.
needs_accelerator = pytest.mark.skipif(
    accelerator.native is None, reason=f"the accelerator is {accelerator.ACCELERATOR.description}"
)

Request = tuple[bytes, bytes, int]

#: Positions, sizes and the checked fields of an index entry and of a message.
ENTRY_FIELDS: Final = ((0, 4), (4, 4), (8, 8))
MESSAGE_FIELDS: Final = ((0, 8), (8, 8), (16, 8), (24, 8), (48, 4), (52, 4), (56, 8))
#: Payloads on both sides of each length class of the checksum, which covers 56 bytes more.
PAYLOADS: Final = (0, 1, 71, 72, 73, 74, 120, 183, 184, 185, 200, 500, 967, 968, 969, 1000, 2100)


@contextmanager
def without_accelerator() -> Iterator[None]:
    """What runs inside runs in Python alone."""
    users: tuple[Any, ...] = (
        batch,
        fresh_ids,
        client_messages,
        sending,
        lines,
        sinks,
        sources,
    )
    was = [module.native for module in users]
    for module in users:
        module.native = None
    try:
        yield
    finally:
        for module, native in zip(users, was, strict=True):
            module.native = native


@pytest.fixture(
    scope="module", params=[pytest.param("accelerated", marks=needs_accelerator), "in Python"]
)
def both_ways(request: pytest.FixtureRequest) -> Iterator[None]:
    """The tests of what the accelerator does are run twice: with it, and in Python alone."""
    if request.param == "accelerated":
        yield
    else:
        with without_accelerator():
            yield


def numbered_ids() -> Callable[[int], bytes]:
    """The same ids in the same order, in whatever portions they are asked for."""
    given = 0

    def new_ids(count: int) -> bytes:
        nonlocal given
        first, given = given, given + count
        return b"".join((2**127 + n).to_bytes(16, "little") for n in range(first, given))

    return new_ids


def said_of(request: Request) -> list[Any]:
    """What receiving, walking, stamping and verifying these bytes gives, or raises."""
    messages, indexes, count = request
    memory = memoryview(bytearray(b"?" + messages))[1:]  # at an odd address, as in a request
    said: list[Any] = []
    for found in (
        _outcome(lambda: batch.receive(memory, memoryview(indexes), count)),
        _outcome(lambda: batch.walk(memory)),
        batch.walk_prefix(memory),
    ):
        if not isinstance(found, batch.Batch):
            said.append(found)
            continue
        said += [found.ends.tolist(), found.size, batch.verify(found)]
        said.append(batch.index_entries(found, relative_offset=3, position=70, timestamp=2**60))
    received = _outcome(lambda: batch.receive(memory, memoryview(indexes), count))
    if isinstance(received, batch.Batch):
        batch.stamp(received, base_offset=2**40, timestamp=2**50, new_ids=numbered_ids())
        said += [bytes(memory), batch.verify(received)]
        memory[count % len(memory)] ^= 1
        said += [batch.verify(received), batch.walk_prefix(memory).size]
        batch.stamp_checksums(received)
        said.append(bytes(memory))
    return said


def _outcome(attempt: Callable[[], batch.Batch]) -> Any:
    try:
        return attempt()
    except BorzoiError as fault:
        return type(fault), str(fault)


def is_judged_alike(request: Request) -> bool:
    """Whether the accelerator itself knows a sound request from a faulty one.

    A sound one that it had doubts about would only be slower.
    """
    messages, indexes, count = request
    assert accelerator.native is not None
    is_sound = accelerator.native.check(memoryview(messages), memoryview(indexes), count)
    with without_accelerator():
        received = _outcome(lambda: batch.receive(memoryview(messages), memoryview(indexes), count))
    return (is_sound is not None) == isinstance(received, batch.Batch)


def is_split_alike(request: Request) -> bool:
    """Whether the accelerator finds in the payload of a send what Python finds in two steps."""
    assert accelerator.native is not None
    view = memoryview(payload_of(request))
    split = split_send(view)
    expected = None
    if split is not None and split[1] <= CHECKED_AT_ONCE_MAX:
        constant, count, indexes_start, messages_start = split
        messages, indexes = view[messages_start:], view[indexes_start:messages_start]
        with without_accelerator():
            received = _outcome(lambda: batch.receive(messages, indexes, count))
        if isinstance(received, batch.Batch):
            expected = (constant, messages_start, received.ends.tolist())
    found = accelerator.native.split(view)
    if found is None or expected is None:
        return found is expected
    messages = view[found[1] :]
    return (*found[:2], batch.found_batch(messages, found[2]).ends.tolist()) == expected


def is_joined_alike(request: Request) -> bool:
    """Whether the accelerator joins the messages of a whole frame that `split` finds sound, behind
    those of others, and nothing of any other one."""
    native = accelerator.native
    assert native is not None
    payload = payload_of(request)
    length = int.from_bytes(payload[:4], "little")
    if not 4 <= length < SEND_METADATA_BYTES_MAX - 3:
        return True  # no send that was prepared begins like this
    start = b"code" + payload[:length]
    frame = (4 + len(payload)).to_bytes(4, "little") + b"code" + payload
    found = native.split(memoryview(payload))
    expected = batch.JoinedBatches()
    expected.add(memoryview(b"others"), [6])
    joined = batch.JoinedBatches()
    joined.add(memoryview(b"others"), [6])
    size = 0
    if found is not None:
        messages = memoryview(payload)[found[1] :]
        expected.add(messages, batch.found_batch(messages, found[2]).ends)
        size = len(messages)
    others = (
        (memoryview(frame)[:-1], start),
        (memoryview(frame + b"?"), start),
        (memoryview(frame), start[:-1] + bytes([start[-1] ^ 1])),
        (memoryview(frame), start + bytes(len(frame))),
    )
    return (
        all(joined.join(*other) == 0 for other in others)
        and joined.join(memoryview(frame), start) == size
        and (joined._messages, joined._ends) == (expected._messages, expected._ends)
    )


def payload_of(request: Request) -> bytes:
    """The request behind metadata of any length, which may say another one than it has."""
    messages, indexes, count = request
    draw = random.Random(len(messages) * 31 + sum(indexes))
    constant = draw.randbytes(draw.choice((0, 1, 14, 40, 771, 772)))
    length = len(constant) + 4 + draw.choice((0,) * 12 + (-1, 1, -4, 2**31))
    head = (length % 2**32).to_bytes(4, "little") + constant + count.to_bytes(4, "little")
    return head + indexes + messages


# Damage. ----------------------------------------------------------------------------------------


def sound_request(draw: random.Random) -> Request:
    indexes, messages = bytearray(), bytearray()
    count = draw.choice((1, 1, 2, 3, 7, 8, 9, 12))
    one_size = draw.choice(PAYLOADS) if draw.random() < 0.4 else None
    for _ in range(count):
        payload = draw.choice(PAYLOADS) if one_size is None else one_size
        user_headers = min(draw.choice((0, 0, 5)), payload)
        message_id = draw.choice((0, 0, 1, 2**64, 2**127 + 5))
        messages += bytes(8) + message_id.to_bytes(16, "little") + bytes(24)
        messages += user_headers.to_bytes(4, "little") + (payload - user_headers).to_bytes(
            4, "little"
        )
        messages += bytes(8) + draw.randbytes(payload)
        indexes += bytes(4) + len(messages).to_bytes(4, "little") + bytes(8)
    return bytes(messages), bytes(indexes), count


def damaged(request: Request, draw: random.Random) -> Request:
    """The same with a few fields changed, a little or altogether, or cut off somewhere."""
    messages, indexes, count = bytearray(request[0]), bytearray(request[1]), request[2]
    ends = [0, *(int.from_bytes(indexes[at : at + 4], "little") for at in range(4, 16 * count, 16))]
    for _ in range(draw.choice((0, 1, 1, 1, 2, 3))):
        number = draw.randrange(count)
        if draw.random() < 0.4:
            field, size = draw.choice(ENTRY_FIELDS)
            target, at = indexes, number * 16 + field
        else:
            field, size = draw.choice(MESSAGE_FIELDS)
            target, at = messages, ends[number] + field
        old = int.from_bytes(target[at : at + size], "little")
        new = draw.choice(
            (old + draw.randint(-70, 70), draw.getrandbits(8 * size), 0, 1, 2 ** (8 * size) - 1)
        )
        target[at : at + size] = (new % 2 ** (8 * size)).to_bytes(size, "little")
    chance = draw.random()
    if chance < 0.05:
        del messages[draw.randrange(len(messages) + 1) :]
    elif chance < 0.1:
        messages += draw.randbytes(draw.randrange(1, 130))
    elif chance < 0.13:
        del indexes[draw.randrange(len(indexes) + 1) :]
    elif chance < 0.16:
        count = draw.choice((0, count - 1, count + 1, 2**32 - 1))
    elif chance < 0.18:
        messages = bytearray(draw.randbytes(len(messages)))
    return bytes(messages), bytes(indexes), count


def damaged_requests(count: int, seed: int) -> Iterator[Request]:
    draw = random.Random(seed)
    for number in range(count):
        if number % 50 == 0:
            sound = sound_request(draw)
        yield damaged(sound, draw)


def first_disagreement(count: int, seed: int) -> Request | None:
    """The first of this many damaged requests on which the two paths disagree."""
    for request in damaged_requests(count, seed):
        accelerated = said_of(request)
        with without_accelerator():
            plain = said_of(request)
        alike = is_judged_alike(request) and is_split_alike(request)
        alike = alike and is_joined_alike(request)
        if accelerated != plain or not alike:
            return request
    return None


def main(count: int, seed: int) -> int:
    print(f"the accelerator is {accelerator.ACCELERATOR.description}", flush=True)
    if accelerator.native is None:
        return 2
    per_seed = 100_000
    for done in range(0, count, per_seed):
        found = first_disagreement(min(per_seed, count - done), seed)
        if found is not None:
            print(f"seed {seed}: {found}")
            return 1
        print(f"seed {seed}: {min(done + per_seed, count)} requests, equal", flush=True)
        seed += 1
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
