import pytest

from borzoi.bench.limit import measure

pytestmark = pytest.mark.system


def test_every_row_is_measured(tmp_path):
    rows = measure(10_000, tmp_path, seconds=0.05)
    assert list(rows) == [
        "memory_copy",
        "loopback",
        "disk_write",
        "disk_sync",
        "bare_python_server",
    ]
    assert all(rate > 0 for rate in rows.values())
    assert list(tmp_path.iterdir()) == []
