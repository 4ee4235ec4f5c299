"""``borzoi lag``: how far consumer groups are behind, per partition."""

from typing import Any

import click

from borzoi.cli.connecting import connected
from borzoi.cli.names import TOPIC, Topic, shown_topic
from borzoi.cli.output import chosen, emit_list, list_options
from borzoi.client import Client
from borzoi.model.identifiers import Identifier

COLUMNS = {
    "topic": "Topic",
    "group": "Group",
    "partition": "Partition",
    "member": "Member",
    "offset": "Stored",
    "end": "Last",
    "lag": "Lag",
}


@click.command()
@click.argument("topic", type=TOPIC, required=False)
@click.option("-g", "--group", help="Only this group.")
@click.option("--total", is_flag=True, help="One line per group, not per partition.")
@list_options
def lag(topic: Topic | None, group: str | None, total: bool, form: str, list_mode: str) -> None:
    """Show how many messages each consumer group has not read yet."""
    with connected() as client:
        topics = [topic] if topic is not None else list(_all_topics(client))
        rows = [row for one in topics for row in lag_of(client, one, group)]
    if total:
        rows = totals_of(rows)
    columns = {
        field: heading
        for field, heading in COLUMNS.items()
        if not total or field in ("topic", "group", "lag")
    }
    emit_list(rows, columns, chosen(form, list_mode))


def _all_topics(client: Client) -> list[Topic]:
    return [
        (stream.name, one.name)
        for stream in client.get_streams()
        for one in client.get_topics(stream.id)
    ]


def lag_of(client: Client, topic: Topic, only: Identifier | None = None) -> list[dict[str, Any]]:
    """Return one row per group and partition; without a stored offset all messages count."""
    details = client.get_topic(topic)
    if details is None:
        return []
    rows = []
    for info in client.get_consumer_groups(topic):
        if only is not None and str(only) not in (info.name, str(info.id)):
            continue
        group = client.get_consumer_group(topic, info.id)
        owners = {
            partition: member.id
            for member in (group.members if group is not None else ())
            for partition in member.partitions
        }
        for partition in details.partitions:
            stored = client.get_consumer_offset(topic, partition=partition.id, group=info.id)
            rows.append(
                {
                    "topic": shown_topic(topic),
                    "group": info.name,
                    "partition": partition.id,
                    "member": owners.get(partition.id),
                    "offset": None if stored is None else stored.stored_offset,
                    "end": partition.current_offset if partition.messages_count else None,
                    "lag": behind(
                        None if stored is None else stored.stored_offset,
                        partition.current_offset,
                        partition.messages_count,
                    ),
                }
            )
    return rows


def behind(stored: int | None, last: int, count: int) -> int:
    """Return how many stored messages follow the stored offset."""
    if not count:
        return 0
    first = last + 1 - count
    following = first if stored is None else max(stored + 1, first)
    return max(0, last + 1 - following)


def totals_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    sums: dict[tuple[str, str], int] = {}
    for row in rows:
        key = (row["topic"], row["group"])
        sums[key] = sums.get(key, 0) + row["lag"]
    return [{"topic": topic, "group": group, "lag": lag} for (topic, group), lag in sums.items()]
