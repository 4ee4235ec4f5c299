import os

import pytest
from tests.support.interpreter import run_python

from borzoi.server.placement import Seat
from borzoi.server.seating import NODES_MAX, prefer_memory_of, take_seat

MEMORY_POLICY = """
import sys
from borzoi.server.seating import prefer_memory_of
print(prefer_memory_of(int(sys.argv[1])))
print(open("/proc/self/numa_maps").readline().split()[1])
"""


@pytest.fixture(autouse=True)
def _the_seat_is_given_back():
    usable = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, usable)


def test_a_process_without_a_seat_stays_as_it_is() -> None:
    usable = os.sched_getaffinity(0)
    assert take_seat(Seat()) == []
    assert os.sched_getaffinity(0) == usable


def test_a_process_is_bound_to_its_processor() -> None:
    last = max(os.sched_getaffinity(0))
    assert take_seat(Seat(last)) == []
    assert os.sched_getaffinity(0) == {last}


def test_a_seat_that_the_system_refuses_costs_one_line() -> None:
    usable = os.sched_getaffinity(0)
    (refusal,) = take_seat(Seat(1023))
    assert refusal.startswith("this process is not bound to processor 1023: ")
    assert os.sched_getaffinity(0) == usable
    (refusal,) = take_seat(Seat(None, NODES_MAX))
    assert refusal == f"memory is not taken from node {NODES_MAX} first: not supported here"


def test_memory_comes_from_the_node_first() -> None:
    """In a process of its own: the policy of a thread stays."""
    told, policy = run_python("-c", MEMORY_POLICY, "0", check=True).stdout.splitlines()
    if told == "None":
        assert policy == "prefer:0"
    else:
        assert told in ("Operation not permitted", "Function not implemented")


def test_a_node_that_is_not_there_is_refused() -> None:
    assert prefer_memory_of(NODES_MAX - 1) is not None


def test_a_machine_whose_numbers_are_not_known_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "abacus")
    assert prefer_memory_of(0) == "not supported here"
