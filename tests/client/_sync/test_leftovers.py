# Made by tools/unasync.py from tests/client/_async/test_leftovers.py: edit that one.
"""After `close` nothing is left: no task, no thread, no socket."""

import asyncio
import os
import threading
from pathlib import Path

import pytest
from tests.support.transports import every_transport

from borzoi.client import Client
from borzoi.client._colours import sleep
from borzoi.model.errors import CannotConnect, InvalidCredentials


def sockets() -> int:
    """Descriptors of this process that are sockets or event queues."""
    found = 0
    for each in Path("/proc/self/fd").iterdir():
        try:
            found += os.readlink(each).startswith(("socket:", "anon_inode:"))
        except FileNotFoundError:
            continue
    return found


def tasks() -> int:
    try:
        return len(asyncio.all_tasks())
    except RuntimeError:
        return 0


def left() -> tuple[int, int, int]:
    sleep(0)
    return tasks(), threading.active_count(), sockets()


def no_more(now: tuple[int, int, int], before: tuple[int, int, int]) -> bool:
    """What earlier tests left may go meanwhile; nothing may come."""
    return all(one <= other for one, other in zip(now, before, strict=True))


def use_everything(url: str, topic: str, group: str | None) -> None:
    with Client(f"{url}&heartbeat_interval=1ms") as client:
        with client.producer(topic, background=True, linger=0) as producer:
            for number in range(100):
                producer.send(str(number).encode(), key=str(number))
        with client.consumer(topic, group=group, follow=False) as consumer:
            for _ in consumer:
                pass
        client.get_streams()
    client.close()


@every_transport
def test_nothing_is_left_after_a_client_was_closed(
    client, topic: str, url: str, transport: str
) -> None:
    client.ping()
    group = None if transport == "http" else "leftovers"
    before = left()
    for _ in range(3):
        use_everything(url, topic, group)
    assert no_more(left(), before)


@every_transport
def test_nothing_is_left_after_a_client_failed_to_connect(url: str, transport: str) -> None:
    before = left()
    with pytest.raises(InvalidCredentials):
        Client(url.replace("iggy:iggy", "iggy:wrong")).__enter__()
    with pytest.raises(CannotConnect):
        Client(f"borzoi+{transport}://127.0.0.1:1", connect_timeout=0.2).__enter__()
    assert no_more(left(), before)
