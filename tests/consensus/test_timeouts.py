from random import Random

from borzoi.consensus.config import Timeouts
from borzoi.consensus.timeouts import NEVER, Timer, Timers


def timers() -> Timers:
    return Timers(Timeouts(), Random(1))


def ticks_until(timed: Timers, timer: int) -> int:
    for tick in range(1, 20_000):
        if timed.elapse(1) and timer in list(timed.fired()):
            return tick
    raise AssertionError("never fired")


def test_a_timer_fires_once_after_its_ticks():
    timed = timers()
    timed.start(Timer.PREPARE)
    assert ticks_until(timed, Timer.PREPARE) == 25
    assert not timed.is_running(Timer.PREPARE)
    assert timed.next_deadline == NEVER


def test_a_stopped_timer_does_not_fire():
    timed = timers()
    timed.start(Timer.PING)
    timed.stop(Timer.PING)
    timed.elapse(10_000)
    assert list(timed.fired()) == []


def test_a_start_moves_a_running_timer_and_ensure_does_not():
    timed = timers()
    timed.start(Timer.PREPARE)
    timed.elapse(20)
    timed.ensure(Timer.PREPARE)
    assert ticks_until(timed, Timer.PREPARE) == 5
    timed.ensure(Timer.PREPARE)
    timed.elapse(20)
    timed.start(Timer.PREPARE)
    assert ticks_until(timed, Timer.PREPARE) == 25


def test_jitter_spreads_heartbeats_and_stays_in_bounds():
    waits = set()
    timed = timers()
    for _ in range(50):
        timed.start(Timer.NORMAL_HEARTBEAT)
        waits.add(ticks_until(timed, Timer.NORMAL_HEARTBEAT))
    assert min(waits) >= 500
    assert max(waits) < 600
    assert len(waits) > 10


def test_backoff_grows_to_sixteen_times_and_start_forgets_it():
    timed = timers()
    timed.start(Timer.PREPARE)
    waits = []
    for _ in range(8):
        timed.back_off(Timer.PREPARE)
        waits.append(ticks_until(timed, Timer.PREPARE))
    assert waits[0] >= 50
    assert max(waits) <= 16 * 25
    assert waits[-1] == 16 * 25
    timed.start(Timer.PREPARE)
    assert ticks_until(timed, Timer.PREPARE) == 25


def test_backing_off_does_not_hide_an_earlier_deadline():
    timed = timers()
    timed.start(Timer.REPAIR)
    timed.back_off(Timer.PREPARE)
    assert ticks_until(timed, Timer.REPAIR) == 10


def test_a_handler_may_stop_or_restart_another_timer_due_at_the_same_tick():
    timed = timers()
    timed.start(Timer.PREPARE)
    timed.start(Timer.REPAIR)
    timed.elapse(100)
    fired = []
    for timer in timed.fired():
        fired.append(timer)
        timed.stop(Timer.REPAIR)
    assert fired == [Timer.PREPARE]


def test_idle_ticks_need_one_comparison():
    timed = timers()
    timed.start(Timer.PING)
    assert not timed.elapse(99)
    assert timed.elapse(1)


def test_a_timer_that_is_pushed_back_keeps_its_length():
    timed = timers()
    timed.push_back(Timer.NORMAL_HEARTBEAT)
    length = timed.next_deadline
    assert 500 <= length < 600
    for _ in range(20):
        timed.elapse(7)
        timed.push_back(Timer.NORMAL_HEARTBEAT)
    assert ticks_until(timed, Timer.NORMAL_HEARTBEAT) == length
