import asyncio
from asyncio import Future

import pytest

from borzoi.model.errors import StorageFailure
from borzoi.partitions.futures import PromptFuture, after, arrived, following, gathered, then


def future_of(value: int) -> "Future[int]":
    made: Future[int] = asyncio.get_running_loop().create_future()
    made.set_result(value)
    return made


async def test_an_answer_that_is_here_creates_no_task() -> None:
    before = asyncio.all_tasks()
    assert then(3, str) == "3"
    assert gathered([1, 2]) == [1, 2]
    coroutine = arrived(4)
    with pytest.raises(StopIteration) as ended:
        coroutine.send(None)
    assert ended.value.value == 4
    assert asyncio.all_tasks() == before


async def test_an_answer_that_is_not_is_waited_for() -> None:
    waiting = then(future_of(3), str)
    assert not isinstance(waiting, str)
    assert await waiting == "3"
    four: int | Future[int] = future_of(4)
    assert await arrived(four) == 4
    mixed = gathered([1, future_of(2), 3])
    assert isinstance(mixed, Future)
    assert await mixed == [1, 2, 3]


async def test_an_answer_after_something_succeeds_fails_or_is_cancelled_with_it() -> None:
    loop = asyncio.get_running_loop()
    done, failed, cancelled = (loop.create_future() for _ in range(3))
    answers = [after(one, 7) for one in (done, failed, cancelled)]
    done.set_result(None)
    failed.set_exception(StorageFailure("the disk is full"))
    cancelled.cancel()
    assert await answers[0] == 7
    with pytest.raises(StorageFailure):
        await answers[1]
    with pytest.raises(asyncio.CancelledError):
        await answers[2]


async def test_cancelling_the_answer_leaves_what_it_waits_for_alone() -> None:
    done: Future[None] = asyncio.get_running_loop().create_future()
    answer = after(done, 7)
    answer.cancel()
    done.set_result(None)
    await asyncio.sleep(0)
    assert answer.cancelled()
    assert not done.cancelled()


async def test_what_follows_an_answer_is_made_of_it_or_fails_with_it() -> None:
    loop = asyncio.get_running_loop()
    source: asyncio.Future[int] = loop.create_future()
    made = following(source, lambda number: number + 1)
    source.set_result(1)
    assert await made == 2

    broken: asyncio.Future[int] = loop.create_future()
    fails = following(broken, lambda number: number + 1)
    broken.set_exception(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        await fails

    given_up: asyncio.Future[int] = loop.create_future()
    cancelled = following(given_up, lambda number: number + 1)
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled


@pytest.mark.parametrize("withdraw", [False, True])
async def test_giving_up_what_follows_leaves_the_source_alone_unless_told(withdraw: bool) -> None:
    loop = asyncio.get_running_loop()
    source: asyncio.Future[int] = loop.create_future()
    made = following(source, lambda number: number + 1, withdraw=withdraw)
    made.cancel()
    await asyncio.sleep(0)
    assert source.cancelled() == withdraw
    if not withdraw:
        source.set_exception(ValueError("nobody waits for it"))
        await asyncio.sleep(0)


def prompt() -> PromptFuture[int]:
    return PromptFuture(loop=asyncio.get_running_loop())


async def test_listeners_are_called_before_the_settling_call_returns() -> None:
    told: list[object] = []
    done, failed, cancelled = prompt(), prompt(), prompt()
    for one in (done, failed, cancelled):
        one.listen(lambda future: told.append(future.done()))
        one.listen(told.append)
    done.settle(3)
    assert told == [True, done]
    fault = StorageFailure("the disk is full")
    failed.fail(fault)
    assert told[2:] == [True, failed]
    assert cancelled.cancel()
    assert told[4:] == [True, cancelled]
    assert await done == 3
    with pytest.raises(StorageFailure):
        await failed
    assert not cancelled.cancel()
    assert len(told) == 6, "each of them once"


async def test_a_listener_that_comes_late_is_called_in_the_next_turn() -> None:
    told: list[object] = []
    done = prompt()
    done.settle(3)
    done.listen(told.append)
    assert told == []
    await asyncio.sleep(0)
    assert told == [done]


async def test_a_listener_that_fails_stops_neither_the_others_nor_the_settling_call() -> None:
    told: list[object] = []
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: faults.append(context["exception"])
    )
    done, fault = prompt(), ValueError("a bug")

    def fails(_: object) -> None:
        raise fault

    done.listen(fails)
    done.listen(told.append)
    done.settle(3)
    assert told == [done]
    assert faults == [fault]
