"""How long requests take, by command and transport."""

from collections.abc import Iterator

from borzoi.telemetry.durations import Durations


class RequestTimes:
    """One histogram for each pair that was seen; the protocol bounds the number of commands."""

    def __init__(self) -> None:
        self._durations: dict[tuple[str, str], Durations] = {}

    def observe(self, command: str, transport: str, nanoseconds: int, weight: int = 1) -> None:
        """Record a duration; `weight` counts it for requests that were not measured."""
        self.of(command, transport).observe(nanoseconds, weight)

    def of(self, command: str, transport: str) -> Durations:
        """The histogram of a pair, for callers that keep it."""
        durations = self._durations.get((command, transport))
        if durations is None:
            durations = self._durations[command, transport] = Durations()
        return durations

    def __iter__(self) -> Iterator[tuple[str, str, Durations]]:
        for (command, transport), durations in sorted(self._durations.items(), key=_pair):
            yield command, transport, durations


def _pair(item: tuple[tuple[str, str], Durations]) -> tuple[str, str]:
    return item[0]
