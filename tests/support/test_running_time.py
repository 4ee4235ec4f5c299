import signal
import subprocess
import sys
import time

PROGRAM = """
import sys, time
from tests.support.running_time import RunningTime
with RunningTime() as clock:
    began, by_the_wall = clock.seconds(), time.monotonic()
    print("runs", flush=True)
    sys.stdin.readline()
    print(clock.seconds() - began, time.monotonic() - by_the_wall)
"""


def test_it_stands_still_while_the_process_is_stopped() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        time.sleep(0.5)
        process.send_signal(signal.SIGSTOP)
        time.sleep(2.0)
        process.send_signal(signal.SIGCONT)
        process.stdin.write("\n")
        process.stdin.close()
        counted, passed = map(float, process.stdout.readline().split())
    assert passed >= 2.5
    assert 0.4 <= counted <= passed - 1.9
