from borzoi.telemetry.requests import RequestTimes


def test_each_pair_has_its_own_histogram_in_order() -> None:
    times = RequestTimes()
    times.observe("ping", "tcp", 1000)
    times.observe("send_messages", "tcp", 2000, weight=8)
    times.observe("ping", "http", 3000)
    times.observe("ping", "tcp", 1000)
    found = [(command, transport, one.count, one.total_ns) for command, transport, one in times]
    assert found == [
        ("ping", "http", 1, 3000),
        ("ping", "tcp", 2, 2000),
        ("send_messages", "tcp", 8, 16000),
    ]
