"""``borzoi send`` and ``borzoi tail``: a round trip in the terminal."""

import itertools
import sys
from collections.abc import Iterator

import click

from borzoi.cli.connecting import connected
from borzoi.cli.expressions import condition
from borzoi.cli.faults import reported
from borzoi.cli.following import followed, messages, partitions_of, start_of
from borzoi.cli.headers import headers_of
from borzoi.cli.names import TOPIC, Topic, shown_topic
from borzoi.cli.output import chosen, done, format_option
from borzoi.cli.printing import print_messages
from borzoi.client import Client, Message, NewMessage


@click.command()
@click.argument("topic", type=TOPIC)
@click.argument("payloads", nargs=-1)
@click.option("-k", "--key", help="Messages with the same key share a partition.")
@click.option("-p", "--partition", type=click.IntRange(0))
@click.option("-H", "--headers", help="key:kind:value, separated by commas.")
@click.option("--create", is_flag=True, help="Create the stream and the topic if needed.")
@format_option
def send(
    topic: Topic,
    payloads: tuple[str, ...],
    key: str | None,
    partition: int | None,
    headers: str | None,
    create: bool,
    form: str,
) -> None:
    """Send messages to STREAM/TOPIC; without any, each line of standard input is one."""
    with reported():
        shared = headers_of(headers) if headers else None
    lines = payloads or tuple(line.rstrip("\n") for line in sys.stdin)
    with connected() as client:
        if create:
            ensure(client, topic)
        for start in range(0, len(lines), 1000):
            batch = [NewMessage(line, shared) for line in lines[start : start + 1000]]
            client.send_messages(topic, batch, partition=partition, key=key)
    sentence = f"{len(lines)} messages were sent to {shown_topic(topic)}."
    done(sentence, {"sent": len(lines)}, chosen(form))


def ensure(client: Client, topic: Topic) -> None:
    if client.get_stream(topic[0]) is None:
        client.create_stream(str(topic[0]))
    if client.get_topic(topic) is None:
        client.create_topic((topic[0], str(topic[1])))


@click.command()
@click.argument("topic", type=TOPIC)
@click.option("-f", "--follow", is_flag=True, help="Wait for more, until Ctrl-C.")
@click.option("-n", "--last", type=click.IntRange(0), help="The last N of each partition.  [10]")
@click.option("--from", "start", help="first, an offset, a time, or how long ago (10m).")
@click.option("-p", "--partition", "partitions", type=int, multiple=True)
@click.option("-w", "--where", help='Only these, such as: json.price > 10 and headers.kind == "x"')
@click.option("--max", "most", type=click.IntRange(1), help="Stop after this many.")
@click.option("--format", "template", help="A line each, such as: {offset} {time} {text}")
@format_option
def tail(
    topic: Topic,
    follow: bool,
    last: int | None,
    start: str | None,
    partitions: tuple[int, ...],
    where: str | None,
    most: int | None,
    template: str | None,
    form: str,
) -> None:
    """Show the end of a topic and, with -f, what arrives."""
    if last is not None and start is not None:
        raise click.UsageError("give --last or --from, not both")
    with reported():
        passes = condition(where) if where else None
        begin = start_of(start) if start is not None else None
    with connected() as client:
        if begin is not None:
            found = messages(client, topic, begin, partitions, follow=follow)
        else:
            found = _last(client, topic, 10 if last is None else last, partitions, follow)
        wanted: Iterator[Message] = filter(passes, found) if passes else found
        if most is not None:
            wanted = itertools.islice(wanted, most)
        print_messages(wanted, chosen(form), template=template)


def _last(
    client: Client, topic: Topic, count: int, partitions: tuple[int, ...], follow: bool
) -> Iterator[Message]:
    """Yield the last messages of every partition by time, then new ones."""
    ends: dict[int, int] = {}
    newest: list[Message] = []
    for partition in partitions_of(client, topic, partitions):
        polled = client.poll_messages(topic, partition=partition, start="last", count=max(count, 1))
        ends[partition] = polled.messages[-1].offset + 1 if polled.messages else 0
        newest += polled.messages[len(polled.messages) - count :] if count else []
    yield from sorted(newest, key=lambda one: (one.timestamp, one.partition, one.offset))
    if follow:
        yield from followed(client, topic, ends)
