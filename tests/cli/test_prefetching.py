import threading

import pytest

from borzoi.cli.prefetching import ahead, behind


def test_the_same_items_in_order():
    assert list(ahead(iter(range(1000)))) == list(range(1000))
    assert list(ahead(iter([]))) == []
    assert list(ahead(iter([None, None]))) == [None, None]


def test_one_item_is_fetched_while_another_is_worked_on():
    fetched = [threading.Event() for _ in range(4)]

    def items():
        for number, event in enumerate(fetched):
            event.set()
            yield number

    walk = ahead(items())
    assert next(walk) == 0
    assert fetched[1].wait(60)
    assert not fetched[2].wait(0.01)
    walk.close()
    assert not fetched[2].is_set()


def test_a_fault_comes_in_its_turn():
    def items():
        yield 1
        raise ValueError("oops")

    walk = ahead(items())
    assert next(walk) == 1
    with pytest.raises(ValueError, match="oops"):
        next(walk)


def test_no_thread_is_left():
    before = threading.active_count()
    walk = ahead(iter(range(10)))
    next(walk)
    walk.close()
    assert threading.active_count() == before


def test_what_is_done_behind_is_done_in_order_and_to_its_end():
    found: list[int] = []
    with behind(found.append) as act:
        for number in range(1000):
            act(number)
    assert found == list(range(1000))


def test_a_call_waits_for_the_one_before_it_alone():
    release, begun = threading.Event(), threading.Event()

    def slow(number: int) -> None:
        begun.set()
        release.wait(60)

    with behind(slow) as act:
        act(1)
        assert begun.wait(60)
        assert not release.is_set()
        release.set()
        act(2)


@pytest.mark.parametrize("calls", [1, 2])
def test_a_fault_behind_comes_with_the_next_call_or_the_end(calls):
    def fail(number: int) -> None:
        raise ValueError("oops")

    def call_all() -> None:
        with behind(fail) as act:
            for number in range(calls):
                act(number)

    with pytest.raises(ValueError, match="oops"):
        call_all()
