import io

from rich.console import Console
from tests.bench.test_report import report

from borzoi.bench.board import Board
from borzoi.bench.comparing import Difference
from borzoi.bench.plan import KIND_BY_NAME, Plan
from borzoi.bench.screen import live, print_differences, print_limits, print_summary


def console(columns: int = 120) -> Console:
    return Console(file=io.StringIO(), width=columns)


def said(screen: Console) -> str:
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue()


def test_a_summary_with_limits_shows_the_share_that_was_reached():
    screen = console()
    print_summary(report(limits={"bare_python_server": 100.0}), screen)
    text = said(screen)
    assert "producers and consumers" in text
    assert "p9999 ms" in text or "p99.99" in text or "p999 ms" in text
    assert "bare python server" in text
    assert "%" in text


def test_limits_alone():
    screen = console()
    print_limits({"loopback": 1234.0}, screen)
    assert "1,234" in said(screen)


def test_differences():
    screen = console()
    print_differences([Difference("producers", "MB/s", 1.0, 2.0, True)], screen)
    assert "2.00" in said(screen)


def test_a_bar_is_kept_up_to_date_and_goes_away():
    screen = console(60)
    with live(Plan(KIND_BY_NAME["pp"], producers=1, consumers=0), screen) as update:
        board = Board(1)
        board.add(0, sent=1, payload_bytes=10)
        update(board)
