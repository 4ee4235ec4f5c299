"""A good client during attacks: the latency of its pings, alone and under each attack.

Server, attackers and client are separate processes. The best of some rounds counts, because
other load on the machine makes a client wait as well.

    python -m bench abuse
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple

from tests.support.attacked import KEY, MESSAGES, server_with_messages, server_with_topic
from tests.support.attackers import attacking
from tests.support.good_client import Waited, measured
from tests.support.server import RunningServer, running_server

ROUNDS = 3
#: Bursts of pings may make a client wait this many times as long as it does alone ...
RATIO_MAX = 5.0
#: ... and everything else that takes long, this many seconds.
SECONDS_MAX = 0.05


class Attack(NamedTuple):
    name: str
    server: Callable[[], AbstractContextManager[RunningServer]]
    kind: str
    arguments: tuple[int, ...]
    is_relative: bool = False


PURE = {"ACCELERATOR": "off"}
ENCRYPTED = {"SYSTEM_ENCRYPTION_ENABLED": "true", "SYSTEM_ENCRYPTION_KEY": KEY}
ATTACKS = (
    Attack("20 connections, bursts of pings, no login", running_server, "pings", (20,), True),
    Attack(
        "4 encrypted polls of 64 MB",
        lambda: server_with_messages("encrypted"),
        "polls",
        (4, MESSAGES),
    ),
    Attack(
        "4 compressed polls of 64 MB", lambda: server_with_messages("zstd"), "polls", (4, MESSAGES)
    ),
    Attack("sends of 4,000,000 messages", server_with_topic, "batches", (1, 4_000_000)),
    Attack(
        "sends of 1,000,000, no accelerator",
        lambda: server_with_topic(PURE),
        "batches",
        (1, 1_000_000),
    ),
    Attack(
        "sends of 200,000, encrypted", lambda: server_with_topic(ENCRYPTED), "batches", (1, 200_000)
    ),
)


def rounds(attack: Attack) -> Iterator[tuple[Waited, Waited]]:
    """Measure alone and under attack, in turn."""
    with attack.server() as server:
        for _ in range(ROUNDS):
            alone = measured(server)
            with attacking(attack.kind, server.tcp_address, *attack.arguments):
                yield alone, measured(server)


def main() -> int:
    failed = 0
    print("p99 of a ping in ms           alone  beside  ratio  work of the loop in between")
    for attack in ATTACKS:
        alone, beside = min(rounds(attack), key=lambda pair: pair[1].wall)
        ratio = beside.wall / alone.wall
        passed = ratio <= RATIO_MAX if attack.is_relative else beside.wall <= SECONDS_MAX
        failed += not passed
        print(
            f"{attack.name:44} {alone.wall * 1000:6.2f} {beside.wall * 1000:7.2f} {ratio:6.1f}"
            f" {beside.work * 1000:6.2f}  {'' if passed else 'TOO LONG'}",
            flush=True,
        )
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
