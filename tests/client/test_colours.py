"""Both halves offer the same, and the blocking client is what the tool makes of the other one."""

import asyncio
import inspect
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from borzoi import client
from borzoi.client import _colours
from borzoi.client._colours import AsyncLock, AsyncRepeater, Lock, Repeater

ROOT = Path(__file__).parents[2]


def test_the_blocking_client_is_what_the_tool_makes() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "unasync.py", "--check"], capture_output=True, text=True
    )
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


async def test_a_lock_is_not_waited_for_for_ever() -> None:
    lock = AsyncLock()
    async with lock.held(1):
        with pytest.raises(TimeoutError):
            async with lock.held(0.01):
                pass
    async with lock.held(0.01):
        pass


def test_a_lock_of_threads_is_not_waited_for_for_ever() -> None:
    lock = Lock()
    with lock.held(1):
        with pytest.raises(TimeoutError):
            with lock.held(0.01):
                pass
    with lock.held(-1):
        pass


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
