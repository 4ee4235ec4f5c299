"""Fills the topic `shop/orders` with orders, some of which are wrong: data for `orders.toml`.

    python examples/orders/make_orders.py [ADDRESS] [COUNT]

An order is JSON: id, user, amount, country, and a time, one every 10 ms. One in a thousand is not
JSON, and one in a thousand has a negative amount; a pipeline should find both.
"""

import json
import sys
from datetime import UTC, datetime, timedelta

from borzoi.client import Client
from borzoi.model.errors import AlreadyExists

PARTITIONS = 2
BATCH = 5000
COUNTRIES = ("AT", "CH", "DE", "FR", "IT", "PL")
FIRST = datetime(2026, 11, 1, tzinfo=UTC)


def payload(number: int) -> bytes:
    if number % 1000 == 500:
        return b"order %d, but not as JSON" % number
    amount = number * 37 % 50_000 / 100
    order = {
        "id": number,
        "user": number * 7919 % 10_000,
        "amount": -amount if number % 1000 == 250 else amount,
        "country": COUNTRIES[number % len(COUNTRIES)],
        "at": (FIRST + timedelta(milliseconds=10 * number)).isoformat(timespec="milliseconds"),
    }
    return json.dumps(order).encode()


def main(address: str = "127.0.0.1:8090", wanted: str = "100000") -> None:
    count = int(wanted)
    with Client(f"borzoi://iggy:iggy@{address}") as client:
        for create in (
            lambda: client.create_stream("shop"),
            lambda: client.create_topic("shop/orders", partitions=PARTITIONS),
        ):
            try:
                create()
            except AlreadyExists:
                pass
        for first in range(0, count, BATCH):
            numbers = range(first, min(first + BATCH, count))
            for partition in range(PARTITIONS):
                mine = [payload(n) for n in numbers if n % PARTITIONS == partition]
                client.send_messages("shop/orders", mine, partition=partition)
    print(f"sent {count} orders")


if __name__ == "__main__":
    main(*sys.argv[1:])
