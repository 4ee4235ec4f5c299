"""Both halves offer the same, and the blocking client is what the tool makes of the other one."""

import asyncio
import inspect
import threading
from pathlib import Path

import pytest
from tests.support.interpreter import run_python

from borzoi import client
from borzoi.client import _colours
from borzoi.client._colours import AsyncRepeater, AsyncShared, Repeater, Shared

ROOT = Path(__file__).parents[2]


def test_the_blocking_client_is_what_the_tool_makes() -> None:
    done = run_python(ROOT / "tools" / "unasync.py", "--check")
    assert done.returncode == 0, done.stdout + done.stderr


def public(owner: object) -> dict[str, object]:
    return {name: value for name, value in vars(owner).items() if not name.startswith("_")}


def test_every_name_has_a_twin() -> None:
    own = {
        name
        for name, value in public(_colours).items()
        if inspect.isclass(value) or inspect.isfunction(value)
        if value.__module__ == _colours.__name__
    }
    asynchronous = {name for name in own if name.lower().startswith("async")}
    twins = {name.removeprefix("Async").removeprefix("async_") for name in asynchronous}
    assert own == asynchronous | twins


def test_both_clients_have_the_same_methods_and_arguments() -> None:
    for name in dir(client.AsyncClient):
        if not name.startswith("_") and callable(getattr(client.AsyncClient, name)):
            ours = inspect.signature(getattr(client.AsyncClient, name))
            theirs = inspect.signature(getattr(client.Client, name))
            assert list(ours.parameters) == list(theirs.parameters), name
            assert not inspect.iscoroutinefunction(getattr(client.Client, name)), name


PUBLIC = """
    AsyncClient AsyncConsumer AsyncOutcome AsyncProducer Client Consumer Outcome Producer
    Address Options Password Reconnection Tls Token
    HeaderKind HeaderValue Message NewMessage Polled ValueMessage
    BYTES Codec JSON TEXT UndecodableMessage codec_of read
"""


def test_the_public_names_are_these() -> None:
    assert set(client.__all__) == set(PUBLIC.split())
    assert all(hasattr(client, name) for name in client.__all__)


class Slow:
    """A call that takes until it is released; it counts how often it was made."""

    def __init__(self, *faults: Exception) -> None:
        self.released = asyncio.Event()
        self.faults = list(faults)
        self.calls = 0

    async def __call__(self) -> int:
        self.calls += 1
        await self.released.wait()
        if self.faults:
            raise self.faults.pop()
        return self.calls


async def test_a_call_goes_on_for_the_next_caller_when_the_first_one_is_cancelled() -> None:
    shared: AsyncShared[int] = AsyncShared()
    slow = Slow()
    for _ in range(3):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await shared.call(slow, 60)
    slow.released.set()
    assert await shared.call(slow, 60) == 1
    assert await shared.call(slow, 60) == 2


async def test_a_fault_is_that_of_the_caller_who_began() -> None:
    shared: AsyncShared[int] = AsyncShared()
    slow = Slow(ValueError("oops"))
    first, second = (asyncio.create_task(shared.call(slow, 60)) for _ in range(2))
    await asyncio.sleep(0)
    slow.released.set()
    with pytest.raises(ValueError, match="oops"):
        await first
    assert await second == 2


async def test_the_call_of_another_is_not_waited_for_for_ever() -> None:
    shared: AsyncShared[int] = AsyncShared()
    slow = Slow()
    first = asyncio.create_task(shared.call(slow, 60))
    await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        await shared.call(slow, 0.001)
    slow.released.set()
    assert await first == 1


async def test_a_call_that_is_stopped_leaves_no_task_and_says_why() -> None:
    shared: AsyncShared[int] = AsyncShared()
    ended = False

    async def act() -> int:
        if ended:
            raise ValueError("stopped")
        await asyncio.Event().wait()
        return 1

    waiting = [asyncio.create_task(shared.call(act, 60)) for _ in range(2)]
    await asyncio.sleep(0)
    ended = True
    await shared.stop()
    for task in waiting:
        with pytest.raises(ValueError, match="stopped"):
            await task
    await shared.stop()
    assert len(asyncio.all_tasks()) == 1


def test_a_call_of_another_thread_is_not_waited_for_for_ever() -> None:
    shared: Shared[int] = Shared()
    released = threading.Event()
    begun = threading.Event()

    def act() -> int:
        begun.set()
        released.wait(60)
        return 1

    thread = threading.Thread(target=shared.call, args=(act, 60))
    thread.start()
    assert begun.wait(60)
    with pytest.raises(TimeoutError):
        shared.call(act, 0.01)
    released.set()
    thread.join()
    assert shared.call(act, -1) == 1
    shared.stop()


async def test_a_repeater_ends_when_it_is_stopped() -> None:
    beats = asyncio.Event()

    async def beat() -> None:
        beats.set()

    repeater = AsyncRepeater(0.001, beat, "test")
    await asyncio.wait_for(beats.wait(), 60)
    await repeater.stop()
    assert len(asyncio.all_tasks()) == 1


def test_a_repeater_of_threads_ends_when_it_is_stopped() -> None:
    beats = threading.Event()
    repeater = Repeater(0.001, beats.set, "test repeater")
    assert beats.wait(60)
    repeater.stop()
    assert "test repeater" not in {thread.name for thread in threading.enumerate()}


def test_a_repeater_can_be_stopped_by_what_it_does() -> None:
    stopped = threading.Event()

    def stop() -> None:
        repeater.stop()
        stopped.set()

    repeater = Repeater(0.05, stop, "test repeater")
    assert stopped.wait(60)
