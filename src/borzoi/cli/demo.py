"""``borzoi demo``: a stream with three topics that fill up and a consumer group that lags."""

import json
import random
import time
from collections.abc import Callable
from typing import Any, Final

import click

from borzoi.cli.connecting import connected
from borzoi.cli.output import note
from borzoi.client import Client, NewMessage
from borzoi.model.errors import AlreadyExists

STREAM: Final = "demo"
GROUP: Final = "billing"
PARTITIONS: Final = 3
#: The group reads one in this many batches, so that there is lag to look at.
READS_EVERY: Final = 4

CITIES: Final = ("Lisbon", "Osaka", "Nairobi", "Lima", "Oslo", "Pune")
PAGES: Final = ("/", "/search", "/basket", "/checkout", "/help")


def order(draw: random.Random, number: int) -> dict[str, Any]:
    return {
        "id": number,
        "customer": f"customer-{draw.randrange(500)}",
        "city": draw.choice(CITIES),
        "amount": round(draw.lognormvariate(3, 0.8), 2),
        "currency": "EUR",
    }


def click_(draw: random.Random, number: int) -> dict[str, Any]:
    return {"session": draw.randrange(2000), "page": draw.choice(PAGES), "ms": draw.randrange(900)}


def reading(draw: random.Random, number: int) -> dict[str, Any]:
    sensor = draw.randrange(40)
    return {"sensor": sensor, "celsius": round(draw.gauss(18 + sensor % 7, 1.5), 2)}


#: Topic → one of its messages, the field that is its key, and how many a second.
TOPICS: Final[dict[str, tuple[Callable[[random.Random, int], dict[str, Any]], str, int]]] = {
    "orders": (order, "customer", 20),
    "clicks": (click_, "session", 100),
    "sensors": (reading, "sensor", 50),
}


@click.command()
@click.option("--seconds", type=float, help="Stop after this long.  [until Ctrl-C]")
@click.option("--messages", type=int, help="Send this many to each, as fast as possible.")
@click.option("--seed", type=int, default=7, show_default=True)
def demo(seconds: float | None, messages: int | None, seed: int) -> None:
    """Fill the stream demo with orders, clicks and sensor readings, until Ctrl-C."""
    draw = random.Random(seed)
    with connected() as client:
        prepare(client)
        note(f"{STREAM}/orders, {STREAM}/clicks and {STREAM}/sensors are being filled; try:")
        note(f"  borzoi tail -f {STREAM}/orders      borzoi lag {STREAM}/orders")
        began, turn = time.monotonic(), 0
        while True:
            for name, (make, key, rate) in TOPICS.items():
                count = rate if messages is None else min(1000, messages - turn * 1000)
                fill(client, draw, name, make, key, turn * 1000, count)
            if turn % READS_EVERY == 0:
                consume(client)
            turn += 1
            elapsed = time.monotonic() - began
            if messages is not None and turn * 1000 >= messages:
                break
            if seconds is not None and elapsed >= seconds:
                break
            if messages is None:
                time.sleep(max(0.0, turn - elapsed))
    note(f"the stream {STREAM} stays; `borzoi stream delete {STREAM}` removes it")


def prepare(client: Client) -> None:
    """Create what is missing."""
    if client.get_stream(STREAM) is None:
        client.create_stream(STREAM)
    for name in TOPICS:
        try:
            client.create_topic((STREAM, name), partitions=PARTITIONS)
        except AlreadyExists:
            continue
    try:
        client.create_consumer_group((STREAM, "orders"), GROUP)
    except AlreadyExists:
        pass
    client.join_consumer_group((STREAM, "orders"), GROUP)


def fill(
    client: Client,
    draw: random.Random,
    topic: str,
    make: Callable[[random.Random, int], dict[str, Any]],
    key: str,
    first: int,
    count: int,
) -> None:
    """Send `count` messages; those with the same key go to the same partition."""
    by_partition: dict[int, list[NewMessage]] = {}
    for number in range(first, first + count):
        made = make(draw, number)
        message = NewMessage(json.dumps(made), {"source": "demo"})
        by_partition.setdefault(hash_of(str(made[key])) % PARTITIONS, []).append(message)
    for partition, batch in by_partition.items():
        client.send_messages((STREAM, topic), batch, partition=partition)


def hash_of(text: str) -> int:
    """The same in every process, unlike `hash`."""
    return sum(index * ord(letter) for index, letter in enumerate(text, start=1))


def consume(client: Client) -> None:
    """Poll and commit once for the slow group."""
    client.poll_messages((STREAM, "orders"), group=GROUP, count=20, commit=True)
