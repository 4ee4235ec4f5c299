"""What it costs to read a frame: CPU time per call, best of five, against its goal.

Run it as a script: ``python bench/decode.py``. Every row is "name, value, goal, ok".
"""

import sys
import time
from collections.abc import Callable
from typing import NamedTuple

from borzoi.model.consuming import Consumer, ConsumerKind, PollingStrategy
from borzoi.model.partitioning import Partitioning
from borzoi.model.users import ALL_PERMISSIONS
from borzoi.protocol.catalog import decode_request
from borzoi.protocol.commands.groups import JoinConsumerGroup
from borzoi.protocol.commands.messages import PollMessages, SendMessages
from borzoi.protocol.commands.offsets import StoreConsumerOffset
from borzoi.protocol.commands.streams import GetStream
from borzoi.protocol.commands.system import Ping
from borzoi.protocol.commands.topics import CreateTopic
from borzoi.protocol.commands.users import CreateUser, LoginUser
from borzoi.protocol.contract import Request
from borzoi.protocol.framing import (
    RESPONSE_PREFIX,
    ResponseDecoder,
    encode_request,
    encode_response,
)

ROUNDS = 5
CALLS = 50_000

REQUEST_GOAL_US = 5.0
RESPONSE_HEADER_GOAL_US = 1.0

POLL = PollMessages(
    Consumer(ConsumerKind.GROUP, "billing"),
    "orders",
    "placed",
    None,
    PollingStrategy.next(),
    100,
    auto_commit=True,
)

#: The requests that come often, and the ones with the most fields.
REQUESTS: tuple[Request, ...] = (
    Ping(),
    GetStream("orders"),
    LoginUser("iggy", "iggy", "0.10.0"),
    JoinConsumerGroup("orders", "placed", "billing"),
    StoreConsumerOffset(Consumer(ConsumerKind.GROUP, "billing"), "orders", "placed", 3, 41),
    POLL,
    CreateTopic("orders", "placed", 8),
    CreateUser("alice", "secret", permissions=ALL_PERMISSIONS),
)

#: No control requests: shown, without a goal.
OTHERS: tuple[Request, ...] = (
    SendMessages(
        1, 2, Partitioning.partition(3), 10, memoryview(bytes(160)), memoryview(bytes(10_240))
    ),
)


class Row(NamedTuple):
    name: str
    value_us: float
    goal_us: float | None

    @property
    def ok(self) -> bool:
        return self.goal_us is None or self.value_us <= self.goal_us

    def __str__(self) -> str:
        goal = "-" if self.goal_us is None else f"{self.goal_us:.1f}"
        return f"{self.name}, {self.value_us:.3f} µs, {goal}, {'ok' if self.ok else 'MISSED'}"


def cpu_us(call: Callable[[], object]) -> float:
    """CPU time of one call in µs: the best of five rounds, so that a busy machine counts least."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time_ns()
        for _ in range(CALLS):
            call()
        best = min(best, time.process_time_ns() - start)
    return best / CALLS / 1000


def payload_row(request: Request, goal_us: float | None) -> Row:
    payload = encode_request(request)[8:]
    code = int(request.CODE)
    return Row(
        f"decode {type(request).__name__}",
        cpu_us(lambda: decode_request(code, payload)),
        goal_us,
    )


def response_header() -> Row:
    """One answer without payload found in bytes that are already fed."""
    frames = encode_response(0) * CALLS
    decoder = ResponseDecoder()
    best = float("inf")
    for _ in range(ROUNDS):
        decoder.feed(frames)
        start = time.process_time_ns()
        while decoder.next_response() is not None:
            pass
        best = min(best, time.process_time_ns() - start)
    return Row("response header", best / CALLS / 1000, RESPONSE_HEADER_GOAL_US)


def response_fed() -> Row:
    frame = encode_response(0)
    decoder = ResponseDecoder()

    def call() -> None:
        decoder.feed(frame)
        decoder.next_response()

    return Row("response header, fed one by one", cpu_us(call), RESPONSE_HEADER_GOAL_US)


def response_prefix() -> Row:
    frame = bytearray(encode_response(0))
    return Row("response prefix unpacked", cpu_us(lambda: RESPONSE_PREFIX.unpack_from(frame)), None)


def rows() -> list[Row]:
    return [
        *(payload_row(request, REQUEST_GOAL_US) for request in REQUESTS),
        *(payload_row(request, None) for request in OTHERS),
        response_header(),
        response_fed(),
        response_prefix(),
    ]


def main() -> int:
    print("name, value, goal, ok")
    measured = rows()
    for row in measured:
        print(row)
    return 0 if all(row.ok for row in measured) else 1


if __name__ == "__main__":
    sys.exit(main())
