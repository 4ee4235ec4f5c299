import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.security.throttle import SECOND_US, Throttle, ThrottleSettings, origin_of

SETTINGS = ThrottleSettings(
    free_failures=2, first_wait=10, longest_wait=35, forgotten_after=1000, addresses_max=3
)
EVE = "192.0.2.7:50123"


def failing(times, now=0):
    throttle = Throttle(SETTINGS)
    for _ in range(times):
        throttle.failed(EVE, now=now)
    return throttle


def test_nobody_waits_before_a_mistake():
    assert Throttle().wait(EVE, now=5) == 0


@pytest.mark.parametrize(("times", "wait"), [(1, 0), (2, 0), (3, 10), (4, 20), (5, 35), (99, 35)])
def test_the_wait_doubles_up_to_a_maximum(times, wait):
    assert failing(times).wait(EVE, now=0) == wait


def test_a_million_mistakes_are_as_bad_as_many():
    throttle = Throttle(ThrottleSettings(first_wait=1))
    for now in range(1000):
        throttle.failed(EVE, now=now)
    assert throttle.wait(EVE, now=999) == throttle._settings.longest_wait


def test_waiting_is_enough():
    throttle = failing(4)
    assert throttle.wait(EVE, now=15) == 5
    assert throttle.wait(EVE, now=20) == 0
    assert throttle.wait(EVE, now=50) == 0


def test_a_quiet_while_and_all_is_forgotten():
    throttle = failing(9)
    throttle.failed(EVE, now=1000)
    assert throttle.wait(EVE, now=1000) == 0


def test_an_old_mistake_is_no_reason_to_wait_even_if_the_wait_is_longer():
    throttle = Throttle(ThrottleSettings(free_failures=0, longest_wait=9, forgotten_after=5))
    throttle.failed(EVE, now=0)
    assert throttle.wait(EVE, now=5) == 0


def test_the_right_password_clears_the_record():
    throttle = failing(9)
    throttle.succeeded(EVE)
    throttle.succeeded(EVE)
    assert throttle.wait(EVE, now=0) == 0
    assert len(throttle) == 0


def test_others_do_not_wait_for_eves_mistakes():
    assert failing(9).wait("192.0.2.8:50123", now=0) == 0


def test_another_port_is_the_same_address():
    assert failing(9).wait("192.0.2.7:1", now=0) == 35


def test_memory_is_bounded_and_the_oldest_goes_first():
    throttle = failing(9)
    for number in range(3):
        throttle.failed(f"198.51.100.{number}:1", now=1)
    assert len(throttle) == 3
    assert throttle.wait(EVE, now=1) == 0


def test_what_is_forgotten_takes_no_memory():
    throttle = failing(9)
    throttle.failed("198.51.100.1:1", now=2000)
    assert len(throttle) == 1


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 700)), max_size=60))
def test_no_wait_is_longer_than_the_longest(failures):
    throttle, now = Throttle(SETTINGS), 0
    for host, pause in failures:
        now += pause
        throttle.failed(f"192.0.2.{host}:1", now=now)
        assert len(throttle) <= SETTINGS.addresses_max
        assert 0 <= throttle.wait(f"192.0.2.{host}:1", now=now) <= SETTINGS.longest_wait


def test_the_defaults_slow_down_a_guesser_but_not_a_typist():
    throttle = Throttle()
    waits = []
    for _ in range(10):
        throttle.failed(EVE, now=0)
        waits.append(throttle.wait(EVE, now=0))
    assert waits[:3] == [0, 0, 0]
    assert waits[-1] == 8 * SECOND_US


@pytest.mark.parametrize(
    ("address", "origin"),
    [
        ("192.0.2.7:50123", "192.0.2.7"),
        ("192.0.2.7", "192.0.2.7"),
        ("[2001:db8:1:2:3:4:5:6]:80", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("[fe80::1%eth0]:80", "fe80::/64"),
        ("[::ffff:192.0.2.7]:80", "192.0.2.7"),
        ("somewhere.example:80", "somewhere.example"),
        ("", ""),
    ],
)
def test_the_one_responsible_is_found(address, origin):
    assert origin_of(address) == origin
