"""``borzoi top``: a live screen of what a server is doing."""

import time
from typing import Any, Final

import click
import msgspec

from borzoi.cli.connecting import connected
from borzoi.cli.lag import lag_of, totals_of
from borzoi.client import Client
from borzoi.model.value import Value


class Sample(msgspec.Struct):
    """Counters that are compared with the previous sample."""

    at: float
    messages: dict[str, int] = msgspec.field(default_factory=dict)
    sizes: dict[str, int] = msgspec.field(default_factory=dict)


class TopicRow(Value):
    topic: str
    partitions: int
    messages: int
    size_bytes: int
    messages_per_second: float
    bytes_per_second: float


def topic_rows(before: Sample | None, now: Sample, partitions: dict[str, int]) -> list[TopicRow]:
    """Return the rates since the previous sample; the busiest topics first. Pure."""
    seconds = max(now.at - before.at, 1e-9) if before is not None else 1.0
    rows = []
    for topic, messages in now.messages.items():
        more = more_bytes = 0
        if before is not None and topic in before.messages:
            # A purge decreases the counts; do not show a negative rate.
            more = max(0, messages - before.messages[topic])
            more_bytes = max(0, now.sizes[topic] - before.sizes[topic])
        rows.append(
            TopicRow(
                topic,
                partitions[topic],
                messages,
                now.sizes[topic],
                more / seconds,
                more_bytes / seconds,
            )
        )
    return sorted(rows, key=lambda row: (-row.messages_per_second, row.topic))


def sample(client: Client) -> tuple[Sample, dict[str, int], list[tuple[str, str]]]:
    """Counts of every topic, their partitions, and the topics that have groups."""
    taken, partitions = Sample(time.monotonic()), {}
    names = []
    for stream in client.get_streams():
        for topic in client.get_topics(stream.id):
            name = f"{stream.name}/{topic.name}"
            taken.messages[name] = topic.messages_count
            taken.sizes[name] = topic.size_bytes
            partitions[name] = topic.partitions_count
            names.append((stream.name, topic.name))
    return taken, partitions, names


#: On narrower terminals totals are left out in favour of names.
NARROW: Final = 60


def screen(
    stats: Any, rows: list[TopicRow], lags: list[dict[str, Any]], *, width: int, height: int
) -> Any:
    """Return the whole screen as one renderable that fits."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    head = Text(
        f"cpu {stats.cpu_usage:.0f} %  memory {stats.memory_usage >> 20} MiB"
        f"  clients {stats.clients_count}  streams {stats.streams_count}"
        f"  topics {stats.topics_count}  messages {stats.messages_count:,}"
    )
    topics = Table(expand=True)
    topics.add_column("Topic", ratio=1, no_wrap=True, overflow="ellipsis")
    headings = ("Messages", "msg/s", "MB/s")[: 2 if width < NARROW else 3]
    for heading in headings:
        topics.add_column(heading, justify="right", no_wrap=True)
    room = max(1, height - 10 - min(5, len(lags)))
    for row in rows[:room]:
        figures = (
            f"{row.messages:,}",
            f"{row.messages_per_second:,.0f}",
            f"{row.bytes_per_second / 1e6:.2f}",
        )
        topics.add_row(row.topic, *figures[: len(headings)])
    parts: list[Any] = [head, topics]
    if lags:
        behind = Table(expand=True)
        behind.add_column("Group", ratio=1, no_wrap=True, overflow="ellipsis")
        behind.add_column("Lag", justify="right")
        for one in sorted(lags, key=lambda one: -one["lag"])[:5]:
            behind.add_row(f"{one['topic']} {one['group']}", f"{one['lag']:,}")
        parts.append(behind)
    return Group(*parts)


@click.command()
@click.option("-i", "--interval", type=click.FloatRange(0.1), default=1.0, show_default=True)
@click.option("--count", type=click.IntRange(1), help="Stop after this many screens.")
def top(interval: float, count: int | None) -> None:
    """Watch topics, rates and lag of a server; Ctrl-C ends it."""
    from rich.console import Console
    from rich.live import Live

    console = Console()
    with connected() as client:
        before: Sample | None = None
        with Live(console=console, screen=console.is_terminal, auto_refresh=False) as live:
            shown = 0
            while count is None or shown < count:
                taken, partitions, names = sample(client)
                lags = totals_of([row for name in names for row in lag_of(client, name)])
                rows = topic_rows(before, taken, partitions)
                drawn = screen(
                    client.get_stats(), rows, lags, width=console.width, height=console.height
                )
                live.update(drawn, refresh=True)
                before, shown = taken, shown + 1
                if count is None or shown < count:
                    time.sleep(interval)
