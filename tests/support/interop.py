"""The scenarios that the programs in tests/interop/clients have in common."""

from typing import Final

SCENARIOS: Final = (
    "login",
    "tokens",
    "streams",
    "topics",
    "sending",
    "polling",
    "offsets",
    "groups",
    "users",
    "permissions",
)
