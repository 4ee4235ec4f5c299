"""Alerting rules for Prometheus: a table, and the rule file built from it.

The thresholds are a starting point, chosen for a healthy server on small hardware; edit the file to
suit yours.
"""

from typing import Any, Final, NamedTuple


class AlertRule(NamedTuple):
    name: str
    expression: str
    #: How long the condition must hold before the alert fires.
    lasting: str
    severity: str
    summary: str
    #: What to do about it.
    advice: str


def _slowest(family: str, more: str = "") -> str:
    """The 99th percentile of the last five minutes, by server."""
    selected = f"{family}_bucket{more}[5m]"
    return f"histogram_quantile(0.99, sum by (job, instance, le) (rate({selected})))"


RULES: Final = (
    AlertRule(
        "BorzoiDown",
        'up{job="borzoi"} == 0',
        "1m",
        "critical",
        "{{ $labels.instance }} does not answer",
        "Check that the process runs and read the end of its log; a failed start says why.",
    ),
    AlertRule(
        "BorzoiRestarts",
        # Every scrape is an HTTP call, so this counter grows as long as the server runs.
        "resets(http_requests_total[30m]) > 2 and on (job, instance) borzoi_partitions_left_out",
        "0m",
        "critical",
        "{{ $labels.instance }} keeps restarting",
        "The log before each start says why the server ended.",
    ),
    AlertRule(
        "BorzoiGroupFarBehind",
        "sum by (job, instance, stream, topic, group) (borzoi_group_lag) > 1000000",
        "15m",
        "warning",
        "{{ $labels.group }} has {{ $value }} messages of {{ $labels.stream }}/{{ $labels.topic }}"
        " to read",
        "Add members up to the number of partitions, or find out why they are slow: borzoi lag.",
    ),
    AlertRule(
        "BorzoiGroupFallsBehind",
        "min_over_time(borzoi_group_lag[15m]) > 1000 and deriv(borzoi_group_lag[15m]) > 0",
        "30m",
        "warning",
        "{{ $labels.group }} falls behind in partition {{ $labels.partition }} of"
        " {{ $labels.stream }}/{{ $labels.topic }}",
        "Check that the partition has a member that reads and commits: borzoi lag.",
    ),
    AlertRule(
        "BorzoiSlowSends",
        _slowest("borzoi_request_seconds", '{command="send_messages"}') + " > 0.5",
        "10m",
        "warning",
        "one send in a hundred takes {{ $value }} s on {{ $labels.instance }}",
        "Compare with the sync and event loop latencies: the disk or the CPU is the bottleneck.",
    ),
    AlertRule(
        "BorzoiSlowSyncs",
        _slowest("borzoi_sync_seconds") + " > 1",
        "10m",
        "warning",
        "one sync in a hundred takes {{ $value }} s on {{ $labels.instance }}",
        "The disk is busy or failing; check its queue and what else writes to it.",
    ),
    AlertRule(
        "BorzoiLoopBusy",
        _slowest("borzoi_loop_lag_seconds") + " > 0.25",
        "10m",
        "warning",
        "the event loop of {{ $labels.instance }} is {{ $value }} s late",
        "The CPU is saturated: spread the load, or find the command that grew.",
    ),
    AlertRule(
        "BorzoiConnectionsRefused",
        "increase(borzoi_connections_refused_total[5m]) > 0",
        "5m",
        "warning",
        "{{ $labels.instance }} refuses connections",
        "Raise tcp.max_connections and the limit of open files, or find the busy client.",
    ),
    AlertRule(
        "BorzoiPasswordsQueue",
        'borzoi_queue_depth{queue="passwords"} > 32',
        "5m",
        "warning",
        "{{ $value }} logins are queued on {{ $labels.instance }}",
        "A password-guessing attack, or clients that log in for every request.",
    ),
    AlertRule(
        "BorzoiPoolFull",
        "borzoi_pool_in_use_bytes > 0.9 * borzoi_pool_limit_bytes and borzoi_pool_limit_bytes > 0",
        "10m",
        "warning",
        "the memory pool of {{ $labels.instance }} is nearly used up",
        "Raise system.memory_pool.size; until then buffers are allocated outside the pool.",
    ),
    AlertRule(
        "BorzoiSeriesLeftOut",
        "borzoi_partitions_left_out > 0 or borzoi_group_lags_left_out > 0",
        "1h",
        "info",
        "some partitions or groups of {{ $labels.instance }} have no series, so no rule sees them",
        "Raise http.metrics.max_partitions and http.metrics.max_group_lags.",
    ),
)


def alerts() -> dict[str, Any]:
    """Return the rule file, for `rule_files` of Prometheus."""
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
