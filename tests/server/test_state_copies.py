"""Copies of the metadata while it changes."""

import asyncio
from pathlib import Path

from tests.support.lenient import LenientMedium

from borzoi.server.state_copies import StateCopies
from borzoi.storage.state_log import STATE_LOG_NAME, StateSettings, open_state_log


async def test_the_metadata_is_copied_from_one_moment(tmp_path: Path) -> None:
    """While snapshots take entries out of the log, every copy still has all entries."""
    medium = LenientMedium()
    log, _ = open_state_log(medium, tmp_path, StateSettings())
    (tmp_path / "info.json").write_bytes(b"{}")
    copies = StateCopies(tmp_path, log)
    assert copies.last_index == -1
    stop = False

    def write() -> None:
        number = 0
        while not stop:
            log.append(timestamp=number, user_id=0, code=1, command=b"x" * 50)
            number += 1
            if number % 20 == 0:
                log.take_snapshot(b"all so far", timestamp=number)

    writing = asyncio.create_task(asyncio.to_thread(write))
    try:
        for attempt in range(40):
            before = copies.last_index
            files = await asyncio.to_thread(copies.read)
            target = tmp_path / f"copy-{attempt}"
            target.mkdir()
            for name, data in files.items():
                (target / name).write_bytes(data)
            copied, _ = open_state_log(medium, target, StateSettings())
            assert copied.next_index - 1 >= before
    finally:
        stop = True
        await writing
    assert STATE_LOG_NAME in files
