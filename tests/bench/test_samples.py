from borzoi.bench.plan import Role
from borzoi.bench.samples import SAMPLE_DTYPE, Measured, Recorder


def test_rows_become_columns():
    recorder = Recorder()
    recorder.rows += [(1, 2, 3, 4, 5), (6, 7, 8, 9, 10)]
    columns = recorder.columns()
    assert columns.dtype == SAMPLE_DTYPE
    assert columns["latency_ns"].tolist() == [2, 7]
    assert Measured(Role.PRODUCER, 1, columns).samples["messages"].sum() == 11


def test_nothing_measured_is_no_row():
    assert len(Recorder().columns()) == 0
