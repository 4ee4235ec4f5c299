"""Orders as JSON, some of them bad, and what a plain program computes from them."""

import json
from collections import defaultdict
from typing import Any

COUNTRIES = ["AT", "CH", "DE", "FR"]


def order(number: int) -> dict[str, Any]:
    """Order `number`: one every 10 ms, with an amount that may be zero."""
    seconds, millis = divmod(number * 10, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return {
        "id": number,
        "user": number % 1000,
        "amount": float(number * 37 % 500),
        "country": COUNTRIES[number * 7 % 4],
        "at": f"2026-11-01T{hours:02}:{minutes:02}:{seconds:02}.{millis:03}Z",
    }


def is_bad(number: int) -> bool:
    return number % 1009 == 13


def payload(number: int) -> bytes:
    return b"not json %d" % number if is_bad(number) else json.dumps(order(number)).encode()


def totals(count: int) -> dict[tuple[str, str], tuple[int, float]]:
    """Orders and amount by minute and country, of those that are good and not zero."""
    found: dict[tuple[str, str], tuple[int, float]] = defaultdict(lambda: (0, 0.0))
    for number in range(count):
        if is_bad(number):
            continue
        each = order(number)
        if each["amount"] > 0:
            key = (each["at"][:16], each["country"])
            orders, amount = found[key]
            found[key] = (orders + 1, amount + each["amount"])
    return dict(found)
