import signal

from borzoi.server.exit_statuses import ending


def test_a_status_and_a_signal_are_named() -> None:
    assert ending(70) == "ended with status 70"
    assert ending(0) == "ended with status 0"
    assert ending(-signal.SIGKILL) == "was ended by SIGKILL"
    assert ending(-500) == "was ended by signal 500"
