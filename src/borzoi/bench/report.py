"""``report.json``, in the shape of the published load generator, and its directory."""

import os
import platform
import socket
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from borzoi.bench.plan import Plan, Role, volume_bytes
from borzoi.bench.samples import Measured
from borzoi.bench.summaries import (
    ActorSummary,
    actor_summary,
    combined,
    distribution,
    group_summary,
    points,
    pooled_histogram,
)
from borzoi.model.value import Value

#: Role → the name of its group in a report.
GROUPS: Final = {
    Role.PRODUCER: "producers",
    Role.CONSUMER: "consumers",
    Role.PRODUCING_CONSUMER: "producing_consumers",
}
AGGREGATE: Final = "producers_and_consumers"


class ReportContext(Value):
    """The metadata of a report."""

    transport: str
    server_address: str
    identifier: str
    remark: str = ""
    extra_info: str = ""
    gitref: str = ""
    gitref_date: str = ""
    command: str = ""


def report_of(
    plan: Plan,
    measured: Sequence[Measured],
    surroundings: ReportContext,
    server_stats: Mapping[str, Any],
    limits: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """The whole report."""
    kind = plan.kind.json_name
    actors = [
        actor_summary(
            one,
            kind,
            sampling_seconds=plan.sampling_seconds,
            window=plan.moving_average_window,
        )
        for one in measured
    ]
    report = {
        "uuid": str(uuid4()),
        "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
        "server_stats": dict(server_stats),
        "hardware": hardware(surroundings.identifier),
        "params": params(plan, surroundings),
        "group_metrics": [
            _group(name, members, plan.sampling_seconds) for name, members in _groups(actors)
        ],
        "individual_metrics": [_individual(actor, plan.sampling_seconds) for actor in actors],
    }
    if limits:
        report["machine_limits"] = dict(limits)
    return report


def _groups(actors: Sequence[ActorSummary]) -> list[tuple[str, list[ActorSummary]]]:
    found = []
    for role, name in GROUPS.items():
        members = [actor for actor in actors if actor.role is role]
        if members:
            found.append((name, members))
    if len(found) > 1:
        found.append((AGGREGATE, list(actors)))
    return found


def _group(name: str, members: list[ActorSummary], sampling_seconds: float) -> dict[str, Any]:
    curve = pooled_histogram(members).curve()
    return {
        "summary": group_summary(name, members),
        "avg_throughput_mb_ts": points(
            combined([one.megabytes for one in members]), sampling_seconds
        ),
        "avg_throughput_msg_ts": points(
            combined([one.messages for one in members]), sampling_seconds
        ),
        "avg_latency_ts": points(
            combined([one.latency for one in members], mean=True), sampling_seconds
        ),
        "latency_distribution": distribution(members),
        "latency_percentiles": [
            {"percent": round(percent, 4), "latency_ms": round(value / 1e6, 4)}
            for percent, value in curve
        ],
    }


def _individual(actor: ActorSummary, sampling_seconds: float) -> dict[str, Any]:
    return {
        "summary": actor.summary,
        "throughput_mb_ts": points(actor.megabytes, sampling_seconds),
        "throughput_msg_ts": points(actor.messages, sampling_seconds),
        "latency_ts": points(actor.latency, sampling_seconds),
    }


def hardware(identifier: str) -> dict[str, Any]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "identifier": identifier,
        "cpu_name": cpu_name(),
        "cpu_cores": os.cpu_count() or 1,
        "total_memory_mb": memory // 1_000_000,
        "os_name": platform.system(),
        "os_version": platform.release(),
    }


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def params(plan: Plan, surroundings: ReportContext) -> dict[str, Any]:
    return {
        "benchmark_kind": plan.kind.json_name,
        "transport": surroundings.transport,
        "server_address": surroundings.server_address,
        "remark": surroundings.remark,
        "extra_info": surroundings.extra_info,
        "gitref": surroundings.gitref,
        "gitref_date": surroundings.gitref_date,
        "messages_per_batch": str(plan.messages_per_batch),
        "message_batches": plan.message_batches,
        "message_size": str(plan.message_size),
        "producers": plan.producers,
        "consumers": plan.consumers,
        "streams": plan.streams,
        "partitions": plan.partitions,
        "consumer_groups": plan.groups,
        "rate_limit": plan.rate_limit or None,
        "pretty_name": pretty_name(plan, surroundings),
        "bench_command": surroundings.command,
        "params_identifier": directory_name(plan, surroundings),
    }


def pretty_name(plan: Plan, surroundings: ReportContext) -> str:
    text = (
        f"{plan.kind.name}: {plan.actors_count} actors over {surroundings.transport},"
        f" batches of {plan.messages_per_batch} × {plan.message_size} B"
    )
    return f"{text} ({surroundings.remark})" if surroundings.remark else text


def directory_name(plan: Plan, surroundings: ReportContext) -> str:
    """Return the kind, the load, the transport and the machine as a directory name."""
    volume = f"{volume_bytes(plan) / 1e9:.3g}GB"
    parts = [
        plan.kind.json_name,
        str(plan.actors_count),
        str(plan.message_size),
        str(plan.messages_per_batch),
        volume,
        surroundings.transport,
        surroundings.remark,
        surroundings.gitref,
        surroundings.identifier,
        cpu_name(),
    ]
    text = "_".join(part for part in parts if part)
    return "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in text)


def default_identifier() -> str:
    return socket.gethostname()
