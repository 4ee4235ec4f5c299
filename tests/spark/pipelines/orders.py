"""The orders of `examples/orders`, and what a plain program computes from them."""

import importlib.util
import json
from collections import defaultdict
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "orders"


def _example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_orders", FOLDER / "make_orders.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


payload = _example().payload


def is_bad(number: int) -> bool:
    """Whether the pipeline must refuse this order."""
    try:
        return json.loads(payload(number))["amount"] < 0
    except ValueError:
        return True


def totals(count: int) -> dict[tuple[str, str], tuple[int, float]]:
    """Orders and amount by minute and country, of those that are good."""
    found: dict[tuple[str, str], tuple[int, float]] = defaultdict(lambda: (0, 0.0))
    for number in range(count):
        if not is_bad(number):
            order = json.loads(payload(number))
            key = (order["at"][:16], order["country"])
            orders, amount = found[key]
            found[key] = (orders + 1, amount + order["amount"])
    return {key: (orders, round(amount, 2)) for key, (orders, amount) in found.items()}
