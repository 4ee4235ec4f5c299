"""Frames no correct replica sends, but with true checksums: from a broken peer or another cluster.

Each breaks one demand of the frame format, so each must be refused where bytes become values
(F1); not one may reach a replica.
"""

from collections.abc import Callable
from random import Random
from typing import Any, Final, NamedTuple

from borzoi.consensus.frames import blank, checksum, encode_headers, pack_header, root
from borzoi.consensus.messages import (
    HEADER_BYTES,
    UNSEALED,
    ZERO,
    Command,
    DoViewChange,
    Headers,
    Ping,
    Prepare,
    PrepareOk,
    StartView,
)

UNKNOWN_COMMAND: Final = 250
UNKNOWN_OPERATION: Final = 251


class Foreign(NamedTuple):
    """Bytes that arrive over a connection between replicas and must be refused."""

    data: bytes
    what: str


def frame(kind: Any, cluster: bytes, command: Command, body: bytes = b"", **fields: Any) -> bytes:
    """A frame of this kind with everything zero but what is named; sealed."""
    values: dict[str, Any] = {
        name: ZERO if annotation is bytes else 0
        for name, annotation in kind.__annotations__.items()
    }
    values |= {
        "checksum": UNSEALED,
        "checksum_body": checksum(body),
        "cluster": cluster,
        "size": HEADER_BYTES + len(body),
        "command": command.value,
    }
    return pack_header(kind(**(values | fields))) + body


def resealed(raw: bytes, position: int, value: int) -> bytes:
    """The frame with one byte changed and a true checksum again."""
    changed = bytearray(raw)
    changed[position] = value
    changed[:16] = checksum(bytes(changed[16:HEADER_BYTES]))
    return bytes(changed)


def malformed(cluster: bytes, replicas: int) -> dict[str, Callable[[], bytes]]:
    """One maker for every demand of the format."""
    ping = frame(Ping, cluster, Command.PING)
    origin = root(cluster, 0)
    voting, starting = Command.DO_VIEW_CHANGE, Command.START_VIEW
    crooked = bytearray(encode_headers([blank(1)]))
    crooked[200] = 1

    def vote(body: bytes, **fields: Any) -> bytes:
        return frame(DoViewChange, cluster, voting, body, **fields)

    return {
        "half a header": lambda: ping[:100],
        "header checksum": lambda: ping[:40] + b"\xff" + ping[41:],
        "another cluster": lambda: frame(Ping, bytes(15) + b"\x07", Command.PING),
        "unknown command": lambda: resealed(ping, 60, UNKNOWN_COMMAND),
        "size": lambda: frame(Ping, cluster, Command.PING, size=12),
        "body checksum": lambda: frame(Ping, cluster, Command.PING, b"ab")[:-1] + b"c",
        "a body too many": lambda: frame(PrepareOk, cluster, Command.PREPARE_OK, b"body"),
        "no such replica": lambda: frame(Ping, cluster, Command.PING, replica=replicas),
        "unknown operation": lambda: frame(
            Prepare, cluster, Command.PREPARE, operation=UNKNOWN_OPERATION
        ),
        "log_view above view": lambda: vote(b"", log_view=3),
        "not its view": lambda: (
            frame(StartView, cluster, starting, view=1, replica=0) if replicas > 1 else ping[:100]
        ),
        "commit above op": lambda: vote(b"", commit=3),
        "suffix of nothing": lambda: vote(b"\x00" * 77, op=1),
        "suffix too short": lambda: vote(b"", op=1),
        "suffix out of order": lambda: vote(encode_headers([blank(7)])),
        "suffix, false checksum": lambda: vote(encode_headers([origin._replace(timestamp=5)])),
        "suffix with a crooked blank": lambda: vote(bytes(crooked), op=1, commit=1),
        "a blank in a view": lambda: frame(
            StartView, cluster, starting, encode_headers([blank(0)])
        ),
        "headers of nothing": lambda: frame(Headers, cluster, Command.HEADERS, b"\x01" * 256),
        "reserved bytes": lambda: resealed(ping, 255, 9),
    }


def stranger(random: Random, cluster: bytes, replicas: int) -> Foreign:
    makers = malformed(cluster, replicas)
    what = random.choice(sorted(makers))
    return Foreign(makers[what](), what)
