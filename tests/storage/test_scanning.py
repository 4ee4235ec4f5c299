from pathlib import Path

import pytest
from tests.support.disk import SimulatedDisk
from tests.support.logs import numbered

from borzoi.storage import scanning
from borzoi.storage.media import File
from borzoi.storage.scanning import sound_batches

PATH = Path("/d/f")


def file_with(content: bytes) -> File:
    disk = SimulatedDisk()
    disk.make_directory(PATH.parent)
    file = disk.open(PATH, create=True)
    file.write([content], 0)
    return file


def scan(content: bytes, position: int = 0, first_offset: int = 5) -> tuple[int, int]:
    """How many messages and bytes are sound."""
    batches = [*sound_batches(file_with(content).read, position, len(content), first_offset)]
    return sum(map(len, batches)), sum(batch.size for batch in batches)


STORED = bytes(numbered([b"x" * size for size in range(40)], base_offset=5, timestamp=1).messages)


@pytest.mark.parametrize("chunk", [64, 70, 500, 1 << 20])
def test_messages_are_found_whatever_is_read_at_once(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "CHUNK_BYTES", chunk)
    assert scan(STORED) == (40, len(STORED))


@pytest.mark.parametrize("tail", [b"\0", b"\0" * 64, b"\0" * 5000, b"\xff" * 5000, STORED[:64]])
def test_a_scan_ends_where_the_messages_end(tail: bytes) -> None:
    assert scan(STORED + tail) == (40, len(STORED))


def test_a_torn_message_is_not_sound() -> None:
    assert scan(STORED[:-1])[0] == 39


@pytest.mark.parametrize("at", [0, 8, 24, 32, 48, 52, 56])
def test_a_changed_byte_ends_the_scan(at: int) -> None:
    start = sum(64 + size for size in range(10))
    changed = bytearray(STORED)
    changed[start + at] ^= 1
    assert scan(bytes(changed)) == (10, start)


def test_an_offset_that_does_not_follow_ends_the_scan() -> None:
    assert scan(STORED, first_offset=6) == (0, 0)
    gap = STORED + bytes(numbered([b"y"], base_offset=46, timestamp=1).messages)
    assert scan(gap)[0] == 40


def test_a_length_no_message_can_have_is_not_read() -> None:
    header = bytearray(STORED[:64])
    header[52:56] = (2**32 - 1).to_bytes(4, "little")
    assert scan(bytes(header) + bytes(5000)) == (0, 0)
