import asyncio

import pytest

from borzoi.diagnostics import stacks as module
from borzoi.diagnostics.stacks import stacks


async def waits_for_ever(entered: asyncio.Event) -> None:
    entered.set()
    await asyncio.Event().wait()


async def test_threads_and_tasks_are_shown_with_where_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entered = asyncio.Event()
    waiting = asyncio.create_task(waits_for_ever(entered), name="the one that waits")
    await entered.wait()
    text = stacks()
    assert "thread MainThread:" in text
    assert "task the one that waits:" in text
    assert "in waits_for_ever" in text
    monkeypatch.setattr(module, "TASKS_MAX", 1)
    assert "and 1 tasks more" in stacks()
    waiting.cancel()
