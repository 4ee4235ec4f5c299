"""What lives on a terminal, on real (pseudo) terminals of a usual and a narrow width."""

import sys

import pytest
from tests.support.pseudo_terminal import (
    ENTER_SCREEN,
    HIDE_CURSOR,
    LEAVE_SCREEN,
    SHOW_CURSOR,
    on_terminal,
)

pytestmark = [pytest.mark.system, pytest.mark.parametrize("columns", [80, 40])]


@pytest.fixture
def typed(borzoi):
    """``borzoi …`` on a terminal."""

    def run(columns, *arguments):
        where = ("--tcp-server-address", "{}:{}".format(*borzoi.address))
        command = [sys.executable, "-m", "borzoi", *where, *borzoi.credentials, *arguments]
        environment = {"BORZOI_HOME": str(borzoi.home)}
        return on_terminal(list(map(str, command)), columns=columns, environment=environment)

    return run


def test_tail_follows_until_ctrl_c(typed, client, stream, columns):
    with typed(columns, "tail", "-f", "shop/orders", "-n", "1", "--format", "{text}") as terminal:
        terminal.wait_for('{"n": 3')
        client.send_messages("shop/orders", ["the first to arrive"], partition=0)
        terminal.wait_for("the first to arrive")
        client.send_messages("shop/orders", ["the second"], partition=1)
        terminal.wait_for("the second")
        terminal.interrupt()
        assert terminal.end() == 130
    assert "Traceback" not in terminal.written
    assert "Aborted" not in terminal.written


def test_top_draws_whole_screens_and_gives_the_terminal_back(typed, client, stream, columns):
    with typed(columns, "top", "-i", "0.1") as terminal:
        terminal.wait_for("shop/orders", "msg/s")
        assert ENTER_SCREEN in terminal.written
        client.send_messages("shop/orders", ["x"] * 12_345, partition=0)
        terminal.wait_for("12,353")
        terminal.interrupt()
        assert terminal.end() == 130
        assert terminal.echoes()
    assert terminal.width <= columns
    assert terminal.written.rindex(LEAVE_SCREEN) > terminal.written.rindex(ENTER_SCREEN)
    assert terminal.written.rindex(SHOW_CURSOR) > terminal.written.rindex(HIDE_CURSOR)


def test_a_progress_bar_fits_and_goes(typed, client, stream, tmp_path, columns):
    client.send_messages("shop/orders", ["x" * 100] * 20_000, partition=0)
    path = tmp_path / "orders.jsonl"
    with typed(columns, "read", "shop/orders", path) as terminal:
        assert terminal.end() == 0
    assert HIDE_CURSOR in terminal.written, "no bar was drawn"
    assert terminal.written.rindex(SHOW_CURSOR) > terminal.written.rindex(HIDE_CURSOR)
    assert "20008 messages of shop/orders were read." in terminal.shown
    with typed(columns, "load", path, "shop/orders", "--payload", "payload") as terminal:
        assert terminal.end() == 0
    assert "%" in terminal.shown
    assert "20008 messages were sent to shop/orders." in terminal.shown


def test_a_bar_that_is_interrupted_leaves_the_terminal_as_it_was(
    typed, client, stream, tmp_path, columns
):
    client.create_topic("shop/copy")
    for _ in range(20):
        client.send_messages("shop/orders", ["x" * 100] * 20_000, partition=0)
    with typed(columns, "replay", "shop/orders", "shop/copy") as terminal:
        terminal.wait_for("%")
        terminal.interrupt()
        # It may have been done already; then it ended by itself.
        assert terminal.end() in (0, 130)
        assert terminal.echoes()
    assert terminal.written.rindex(SHOW_CURSOR) > terminal.written.rindex(HIDE_CURSOR)


def test_tables_fit(typed, stream, columns):
    with typed(columns, "topic", "list", "shop") as terminal:
        assert terminal.end() == 0
    assert terminal.width <= columns


def test_the_bench_draws_its_progress(typed, server, client, columns):
    options = ("-m", "200", "-P", "10", "-b", "200", "pinned-producer", "-p", "1")
    where = ("tcp", "--server-address", "{}:{}".format(*server.tcp_address))
    with typed(columns, "bench", "--processes", "1", *options, *where) as terminal:
        assert terminal.end() == 0
    client.delete_stream("bench-stream-1")
    assert terminal.width <= columns
    assert terminal.written.rindex(SHOW_CURSOR) > terminal.written.rindex(HIDE_CURSOR)
