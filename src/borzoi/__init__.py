"""borzoi: a persistent message-streaming platform that speaks the Apache Iggy 0.8 protocol.

The packages below are listed in the order a byte travels, from the socket to the disk; see
``docs/architecture.md`` for the tour.
"""

from importlib import import_module

__version__ = "0.1.0"

#: Names re-exported here and imported on demand: the server must not wait for the client to load.
_FOUND_HERE = {
    "AsyncClient": "borzoi.client",
    "Client": "borzoi.client",
    "Message": "borzoi.client",
    "NewMessage": "borzoi.client",
    "read": "borzoi.client",
}


def __getattr__(name: str) -> object:
    if name not in _FOUND_HERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_FOUND_HERE[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_FOUND_HERE])
