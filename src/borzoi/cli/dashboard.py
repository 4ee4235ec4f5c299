"""The Grafana dashboard of a server: a table of panels, and the document that Grafana imports.

Queries use only names that `/metrics` has; a test compares them with a running server.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

#: Restricts every query to the servers selected at the top of the dashboard.
CHOSEN: Final = 'job=~"$job", instance=~"$instance"'
TOPIC: Final = f'{CHOSEN}, stream=~"$stream", topic=~"$topic"'
WINDOW: Final = "[$__rate_interval]"
COLUMNS: Final = 24
HEIGHT: Final = 8
#: The schema version of Grafana 10; later versions accept it.
SCHEMA_VERSION: Final = 38


class Query(NamedTuple):
    expression: str
    legend: str


class Panel(NamedTuple):
    title: str
    unit: str
    queries: Sequence[Query]
    meaning: str = ""
    kind: str = "timeseries"
    width: int = 8


def _quantile(share: float, family: str, by: str = "", more: str = "") -> str:
    """A quantile of a histogram, by these labels."""
    labels = f"le, {by}" if by else "le"
    selected = f"{family}_bucket{{{CHOSEN}{more}}}"
    return f"histogram_quantile({share}, sum by ({labels}) (rate({selected}{WINDOW})))"


def _number(title: str, expression: str, unit: str = "short") -> Panel:
    return Panel(title, unit, [Query(expression, "")], kind="stat", width=3)


def _by_topic(family: str) -> list[Query]:
    return [Query(f"sum by (stream, topic) ({family}{{{TOPIC}}})", "{{stream}}/{{topic}}")]


SENDS: Final = ', command="send_messages"'
POLLS: Final = ', command="poll_messages"'

ROWS: Final[dict[str, Sequence[Panel]]] = {
    "Overview": [
        _number("Streams", f"sum(streams{{{CHOSEN}}})"),
        _number("Topics", f"sum(topics{{{CHOSEN}}})"),
        _number("Partitions", f"sum(partitions{{{CHOSEN}}})"),
        _number("Segments", f"sum(segments{{{CHOSEN}}})"),
        _number("Messages", f"sum(messages{{{CHOSEN}}})"),
        _number("Users", f"sum(users{{{CHOSEN}}})"),
        _number("Clients", f"sum(clients{{{CHOSEN}}})"),
        _number("HTTP calls", f"sum(rate(http_requests_total{{{CHOSEN}}}{WINDOW}))", "reqps"),
    ],
    "Requests": [
        Panel(
            "Requests by command",
            "reqps",
            [
                Query(
                    f"sum by (command) (rate(borzoi_request_seconds_count{{{CHOSEN}}}{WINDOW}))",
                    "{{command}}",
                )
            ],
        ),
        Panel(
            "Requests by transport",
            "reqps",
            [
                Query(
                    f"sum by (transport) (rate(borzoi_request_seconds_count{{{CHOSEN}}}{WINDOW}))",
                    "{{transport}}",
                )
            ],
        ),
        Panel(
            "p99 by command",
            "s",
            [Query(_quantile(0.99, "borzoi_request_seconds", "command"), "{{command}}")],
            "Includes the waiting time of polls that wait for messages.",
        ),
        Panel(
            "Time of a send",
            "s",
            [
                Query(_quantile(share, "borzoi_request_seconds", more=SENDS), name)
                for share, name in ((0.5, "p50"), (0.99, "p99"), (0.999, "p99.9"))
            ],
        ),
        Panel(
            "Time of a poll",
            "s",
            [
                Query(_quantile(share, "borzoi_request_seconds", more=POLLS), name)
                for share, name in ((0.5, "p50"), (0.99, "p99"), (0.999, "p99.9"))
            ],
        ),
        Panel(
            "Who waits",
            "short",
            [Query(f"sum by (queue) (borzoi_queue_depth{{{CHOSEN}}})", "{{queue}}")],
            "Pending requests, by what they wait for, and syncs in flight.",
        ),
    ],
    "Topics": [
        Panel(
            "Messages written",
            "wps",
            [
                # An offset only grows, so it can be used as a counter.
                Query(
                    "sum by (stream, topic)"
                    f" (rate(borzoi_partition_current_offset{{{TOPIC}}}{WINDOW}))",
                    "{{stream}}/{{topic}}",
                )
            ],
        ),
        Panel("Messages held", "short", _by_topic("borzoi_partition_messages")),
        Panel("Size", "bytes", _by_topic("borzoi_partition_size_bytes")),
        Panel("Segments", "short", _by_topic("borzoi_partition_segments")),
    ],
    "Consumer groups": [
        Panel(
            "Lag",
            "short",
            [
                Query(
                    f"sum by (stream, topic, group) (borzoi_group_lag{{{TOPIC}}})",
                    "{{group}} of {{stream}}/{{topic}}",
                )
            ],
            "Messages that a group has yet to commit.",
            width=12,
        ),
        Panel(
            "Partitions with the largest lag",
            "short",
            [
                Query(
                    f"topk(10, borzoi_group_lag{{{TOPIC}}})",
                    "{{group}} of {{stream}}/{{topic}}/{{partition}}",
                )
            ],
            width=12,
        ),
    ],
    "Server": [
        Panel(
            "Connections",
            "short",
            [Query(f"sum by (transport) (borzoi_connections{{{CHOSEN}}})", "{{transport}}")],
        ),
        Panel(
            "Connections refused",
            "cps",
            [
                Query(
                    "sum by (instance)"
                    f" (rate(borzoi_connections_refused_total{{{CHOSEN}}}{WINDOW}))",
                    "{{instance}}",
                )
            ],
        ),
        Panel(
            "Event loop delay",
            "s",
            [
                Query(
                    _quantile(0.99, "borzoi_loop_lag_seconds", "instance, shard"),
                    "{{instance}} shard {{shard}}",
                )
            ],
        ),
        Panel(
            "Time of a sync",
            "s",
            [
                Query(
                    _quantile(share, "borzoi_sync_seconds", "shard"), f"{name} shard {{{{shard}}}}"
                )
                for share, name in ((0.5, "p50"), (0.99, "p99"))
            ],
        ),
        Panel(
            "Memory pool",
            "bytes",
            [
                Query(f"sum by (instance) (borzoi_pool_{field}_bytes{{{CHOSEN}}})", f"{name}")
                for field, name in (
                    ("limit", "limit of {{instance}}"),
                    ("in_use", "lent by {{instance}}"),
                    ("retained", "kept by {{instance}}"),
                )
            ],
        ),
        Panel(
            "Buffers of the pool",
            "ops",
            [
                Query(f"sum(rate(borzoi_pool_{field}_total{{{CHOSEN}}}{WINDOW}))", name)
                for field, name in (
                    ("reuses", "lent again"),
                    ("allocations", "made"),
                    ("external_allocations", "beside the pool"),
                )
            ],
        ),
        Panel(
            "Without series",
            "short",
            [
                Query(f"sum(borzoi_partitions_left_out{{{CHOSEN}}})", "partitions"),
                Query(f"sum(borzoi_group_lags_left_out{{{CHOSEN}}})", "lags of groups"),
            ],
            "What http.metrics.max_partitions and http.metrics.max_group_lags leave out.",
        ),
    ],
}


def dashboard() -> dict[str, Any]:
    """Return the document, to be imported or put where Grafana looks for dashboards."""
    return {
        "uid": "borzoi",
        "title": "borzoi",
        "description": "Streams, requests, consumer groups and the state of borzoi servers",
        "tags": ["borzoi"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": list(_variables())},
        "annotations": {"list": []},
        "panels": list(_laid_out()),
    }


_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


def _variables() -> Iterator[dict[str, Any]]:
    yield {
        "name": "datasource",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
        "hide": 0,
    }
    of_job = '{job=~"$job"}'
    yield _choice("job", "label_values(borzoi_partitions_left_out, job)")
    yield _choice("instance", f"label_values(borzoi_partitions_left_out{of_job}, instance)")
    yield _choice("stream", f"label_values(borzoi_partition_messages{of_job}, stream)")
    of_stream = '{job=~"$job", stream=~"$stream"}'
    yield _choice("topic", f"label_values(borzoi_partition_messages{of_stream}, topic)")


def _choice(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _laid_out() -> Iterator[dict[str, Any]]:
    """Panels from left to right, a heading above the panels of each row."""
    number, y = 0, 0
    for title, panels in ROWS.items():
        number += 1
        place = {"x": 0, "y": y, "w": COLUMNS, "h": 1}
        yield {"id": number, "type": "row", "title": title, "gridPos": place, "panels": []}
        x, y = 0, y + 1
        height = HEIGHT if any(panel.kind != "stat" for panel in panels) else HEIGHT // 2
        for panel in panels:
            if x + panel.width > COLUMNS:
                x, y = 0, y + height
            number += 1
            place = {"x": x, "y": y, "w": panel.width, "h": height}
            yield {"id": number, "gridPos": place, **_panel(panel)}
            x += panel.width
        y += height


def _panel(panel: Panel) -> dict[str, Any]:
    targets = [
        {
            "refId": chr(ord("A") + number),
            "datasource": _SOURCE,
            "expr": query.expression,
            "legendFormat": query.legend,
        }
        for number, query in enumerate(panel.queries)
    ]
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.meaning,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {},
        "targets": targets,
    }
