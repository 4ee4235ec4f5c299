"""Recorded requests and exchanges of the published server, and where borzoi differs on purpose.

The files lie in ``tests/golden``: ``golden-requests.jsonl`` (frames of published clients),
``golden-exchanges.jsonl`` (scenarios against the published server) and ``differences.toml``, which
explains its own fields. A test that replays lines asks `Differences` about each of them and, at the
end, which entries nothing needed.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

EXCHANGES: Final = "golden-exchanges.jsonl"
REQUESTS: Final = "golden-requests.jsonl"
DIFFERENCES: Final = "differences.toml"

#: Data directories that the published server wrote, and the key of the one called "encrypted".
GOLDEN_DATA: Final = Path(__file__).parents[1] / "golden/data"
GOLDEN_KEY: Final = "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="

#: The dialect that borzoi speaks, among those in the file of requests.
DIALECT: Final = "legacy-8"


class Substitution(NamedTuple):
    """Bytes of a request that come from an earlier answer of the scenario."""

    request_range: tuple[int, int]
    from_n: int
    from_range: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Exchange:
    """One step of a scenario; `command` is ``"@close"`` when it closes its connection."""

    seq: int
    scenario: str
    n: int
    connection: str
    step: str
    command: str
    code: int | None
    runs: tuple[tuple[bytes, int], ...]
    status: int | None
    payload: bytes
    truncated: bool
    volatile: str | tuple[tuple[int, int], ...]
    extra: bytes
    closed_by_server: bool
    environment: Mapping[str, str]
    sleep_before_ms: int
    substitutions: tuple[Substitution, ...]
    quirk: str | None

    @property
    def closes(self) -> bool:
        return self.command == "@close"

    @property
    def frame(self) -> bytes:
        """The whole request; some have tens of megabytes, so it is joined when asked for."""
        return b"".join(part * times for part, times in self.runs)


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A frame that a published client sent, and the answer that it accepted."""

    line: int
    command: str
    code: int
    client: str
    frame: bytes
    status: int
    payload: bytes


class What(StrEnum):
    """The kinds of difference, as ``differences.toml`` describes them."""

    TRAILING_BYTES = "trailing_bytes"
    CANONICAL = "canonical"
    ANSWER = "answer"
    ANSWERED_ONCE = "answered_once"
    CLOSES = "closes"
    NOT_ANSWERED = "not_answered"


@dataclass(frozen=True, slots=True)
class Difference:
    file: str
    seq: int
    what: What
    reason: str
    scenario: str | None = None
    rewritten: bytes | None = None
    status: int | None = None
    payload: bytes | None = None
    #: Which bytes of `payload` vary by run; None: the same as in the recorded one.
    volatile: tuple[tuple[int, int], ...] | None = None
    not_sent: bool = False


@dataclass
class Differences:
    """The table, and a note of which entries were asked for and found."""

    table: Mapping[tuple[str, int, What], Difference]
    needed: set[tuple[str, int, What]] = field(default_factory=set)

    def find(self, file: str, seq: int, what: What) -> Difference | None:
        key = (file, seq, what)
        found = self.table.get(key)
        if found is not None:
            self.needed.add(key)
        return found

    def unneeded(self, file: str, *kinds: What) -> list[Difference]:
        """Entries of these kinds that no line asked for."""
        return [
            difference
            for key, difference in self.table.items()
            if key not in self.needed and difference.file == file and difference.what in kinds
        ]


def read_exchanges(folder: Path) -> Iterator[Exchange]:
    for row in _rows(folder / EXCHANGES):
        yield _exchange(row)


def _exchange(row: dict[str, Any]) -> Exchange:
    volatile = row.get("volatile") or []
    runs = row.get("request_rle") or [[row["request_hex"] or "", 1]]
    return Exchange(
        seq=row["seq"],
        scenario=row["scenario"],
        n=row["n"],
        connection=row["conn"],
        step=row["step"],
        command=row["command"],
        code=row["code"],
        runs=tuple((bytes.fromhex(part), times) for part, times in runs),
        status=row["response_status"],
        payload=bytes.fromhex(row["response_payload_hex"] or ""),
        truncated="response_truncated_to" in row,
        volatile=volatile if isinstance(volatile, str) else tuple(map(_range, volatile)),
        extra=bytes.fromhex(row.get("extra_hex") or ""),
        closed_by_server=bool(row.get("closed_by_server")),
        environment=row.get("env") or {},
        sleep_before_ms=row.get("sleep_before_ms") or 0,
        substitutions=tuple(
            Substitution(_range(part["request_range"]), part["from_n"], _range(part["from_range"]))
            for part in row.get("subst") or []
        ),
        quirk=row.get("quirk"),
    )


def read_requests(folder: Path) -> Iterator[RecordedRequest]:
    """The requests of the dialect that borzoi speaks, with the number of their line."""
    for line, row in enumerate(_rows(folder / REQUESTS), start=1):
        if row["dialect"] == DIALECT:
            yield RecordedRequest(
                line=line,
                command=row["command"],
                code=row["code"],
                client=row["client"],
                frame=bytes.fromhex(row["hex"]),
                status=row["status_answered"],
                payload=bytes.fromhex(row["response_payload_hex"]),
            )


def read_differences(folder: Path) -> Differences:
    """The table; an entry with an unknown field, an unknown kind or a double is an error."""
    table: dict[tuple[str, int, What], Difference] = {}
    for entry in tomllib.loads((folder / DIFFERENCES).read_text(encoding="utf-8"))["difference"]:
        for hexadecimal in ("rewritten", "payload"):
            if hexadecimal in entry:
                entry[hexadecimal] = bytes.fromhex(entry[hexadecimal])
        if "volatile" in entry:
            entry["volatile"] = tuple(map(_range, entry["volatile"]))
        difference = Difference(**{**entry, "what": What(entry["what"])})
        key = (difference.file, difference.seq, difference.what)
        if key in table:
            raise ValueError(f"two differences for {key}")
        table[key] = difference
    return Differences(table)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _range(pair: list[int]) -> tuple[int, int]:
    start, stop = pair
    return start, stop
