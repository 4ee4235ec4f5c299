"""Rules by which Prometheus raises an alarm: a table, and the document that it reads.

The thresholds are a beginning: each suits a server that does well on small hardware, and the file
is there to be edited.
"""

from typing import Any, Final, NamedTuple


class AlertRule(NamedTuple):
    name: str
    expression: str
    #: For so long before anybody is told.
    lasting: str
    severity: str
    summary: str
    #: What to do about it.
    advice: str


def _slowest(family: str, more: str = "") -> str:
    """The slowest hundredth of the last five minutes, by server."""
    selected = f"{family}_bucket{more}[5m]"
    return f"histogram_quantile(0.99, sum by (job, instance, le) (rate({selected})))"


RULES: Final = (
    AlertRule(
        "BorzoiDown",
        'up{job="borzoi"} == 0',
        "1m",
        "critical",
        "{{ $labels.instance }} does not answer",
        "Look whether the process runs and what it wrote last. A start that fails says why.",
    ),
    AlertRule(
        "BorzoiRestarts",
        # Every scrape is a call, so this one grows for as long as the server runs.
        "resets(http_requests_total[30m]) > 2 and on (job, instance) borzoi_partitions_left_out",
        "0m",
        "critical",
        "{{ $labels.instance }} starts again and again",
        "The log before each start says what ended the server.",
    ),
    AlertRule(
        "BorzoiGroupFarBehind",
        "sum by (job, instance, stream, topic, group) (borzoi_group_lag) > 1000000",
        "15m",
        "warning",
        "{{ $labels.group }} has {{ $value }} messages of {{ $labels.stream }}/{{ $labels.topic }}"
        " to read",
        "Add members up to the number of partitions, or look why they are slow: borzoi lag.",
    ),
    AlertRule(
        "BorzoiGroupFallsBehind",
        "min_over_time(borzoi_group_lag[15m]) > 1000 and deriv(borzoi_group_lag[15m]) > 0",
        "30m",
        "warning",
        "{{ $labels.group }} falls behind in partition {{ $labels.partition }} of"
        " {{ $labels.stream }}/{{ $labels.topic }}",
        "Look whether the partition has a member that reads and commits: borzoi lag.",
    ),
    AlertRule(
        "BorzoiSlowSends",
        _slowest("borzoi_request_seconds", '{command="send_messages"}') + " > 0.5",
        "10m",
        "warning",
        "one send in a hundred takes {{ $value }} s on {{ $labels.instance }}",
        "Compare with the time of syncs and of the event loop: it is the disk or the processor.",
    ),
    AlertRule(
        "BorzoiSlowSyncs",
        _slowest("borzoi_sync_seconds") + " > 1",
        "10m",
        "warning",
        "one sync in a hundred takes {{ $value }} s on {{ $labels.instance }}",
        "The disk is busy or fails; look at its queue and who else writes to it.",
    ),
    AlertRule(
        "BorzoiLoopBusy",
        _slowest("borzoi_loop_lag_seconds") + " > 0.25",
        "10m",
        "warning",
        "the event loop of {{ $labels.instance }} is {{ $value }} s late",
        "The processor is at its limit: spread the load, or see which command grew.",
    ),
    AlertRule(
        "BorzoiConnectionsRefused",
        "increase(borzoi_connections_refused_total[5m]) > 0",
        "5m",
        "warning",
        "{{ $labels.instance }} refuses connections",
        "Raise tcp.max_connections and the limit of open files, or find who connects so often.",
    ),
    AlertRule(
        "BorzoiPasswordsQueue",
        'borzoi_queue_depth{queue="passwords"} > 32',
        "5m",
        "warning",
        "{{ $value }} logins wait for their turn on {{ $labels.instance }}",
        "Somebody guesses passwords, or clients log in anew for each request.",
    ),
    AlertRule(
        "BorzoiPoolFull",
        "borzoi_pool_in_use_bytes > 0.9 * borzoi_pool_limit_bytes and borzoi_pool_limit_bytes > 0",
        "10m",
        "warning",
        "the memory pool of {{ $labels.instance }} is nearly used up",
        "Raise system.memory_pool.size; until then buffers are made beside the pool.",
    ),
    AlertRule(
        "BorzoiSeriesLeftOut",
        "borzoi_partitions_left_out > 0 or borzoi_group_lags_left_out > 0",
        "1h",
        "info",
        "some of what {{ $labels.instance }} holds has no series, so no rule sees it",
        "Raise http.metrics.max_partitions and http.metrics.max_group_lags.",
    ),
)


def alerts() -> dict[str, Any]:
    """The document, a file for `rule_files` of Prometheus."""
    rules = [
        {
            "alert": rule.name,
            "expr": rule.expression,
            "for": rule.lasting,
            "labels": {"severity": rule.severity},
            "annotations": {"summary": rule.summary, "description": rule.advice},
        }
        for rule in RULES
    ]
    return {"groups": [{"name": "borzoi", "rules": rules}]}
