import numpy as np

from borzoi.bench.plan import KIND_BY_NAME, Plan, Role
from borzoi.bench.report import (
    ReportContext,
    cpu_name,
    default_identifier,
    directory_name,
    hardware,
    params,
    report_of,
)
from borzoi.bench.samples import SAMPLE_DTYPE, Measured

WHERE = ReportContext("tcp", "127.0.0.1:1", "box", remark="a b/c", command="borzoi bench pp")
PLAN = Plan(KIND_BY_NAME["ppc"], producers=1, consumers=1, streams=1, message_batches=2)
ROWS = [(10_000_000, 1_000_000, 10, 1000, 1640), (30_000_000, 3_000_000, 10, 1000, 1640)]


def measured(role):
    return Measured(role, 1, np.array(ROWS, SAMPLE_DTYPE))


def report(**more):
    return report_of(PLAN, [measured(Role.PRODUCER), measured(Role.CONSUMER)], WHERE, {}, **more)


def test_the_shape_of_a_report():
    found = report()
    assert list(found) == [
        "uuid",
        "timestamp",
        "server_stats",
        "hardware",
        "params",
        "group_metrics",
        "individual_metrics",
    ]
    groups = [group["summary"]["kind"] for group in found["group_metrics"]]
    assert groups == ["producers", "consumers", "producers_and_consumers"]
    assert len(found["individual_metrics"]) == 2
    assert found["group_metrics"][0].keys() >= {
        "avg_throughput_mb_ts",
        "avg_throughput_msg_ts",
        "avg_latency_ts",
        "latency_distribution",
    }
    assert found["individual_metrics"][0].keys() == {
        "summary",
        "throughput_mb_ts",
        "throughput_msg_ts",
        "latency_ts",
    }


def test_limits_are_there_when_they_were_measured():
    assert report(limits={"loopback": 5.0})["machine_limits"] == {"loopback": 5.0}


def test_parameters_and_machine():
    found = params(PLAN, WHERE)
    assert found["benchmark_kind"] == "pinned_producer_and_consumer"
    assert found["bench_command"] == "borzoi bench pp"
    assert found["rate_limit"] is None
    assert hardware("box")["identifier"] == "box"
    assert cpu_name()
    assert default_identifier()


def test_the_directory_is_fit_for_any_file_system():
    name = directory_name(PLAN, WHERE)
    assert name.startswith("pinned_producer_and_consumer_2_1000_1000_")
    assert "a-b-c" in name
    assert all(letter.isalnum() or letter in "._-" for letter in name)
