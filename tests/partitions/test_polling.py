from pathlib import Path

import pytest
from tests.support.disk import SimulatedDisk
from tests.support.logs import batch_of, numbered, payloads_in

from borzoi.model.consuming import PollingStrategy
from borzoi.partitions.encrypting import encrypted
from borzoi.partitions.polling import start_of, with_clear_bodies
from borzoi.records.batch import stamp
from borzoi.security.encryption import Cipher
from borzoi.storage.log import SegmentedLog, open_log
from borzoi.storage.reading import Reading
from borzoi.storage.settings import SegmentSettings

CIPHER = Cipher("AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=")


def log_of(count: int) -> SegmentedLog:
    log = open_log(Path("/d"), SimulatedDisk(), segment=SegmentSettings(size=512))
    for number in range(count):
        log.append(
            numbered([bytes(500)], base_offset=number, timestamp=number * 10),
            timestamp=number * 10,
        )
    return log


@pytest.mark.parametrize(
    ("strategy", "stored", "expected"),
    [
        (PollingStrategy.offset(4), None, 4),
        (PollingStrategy.offset(99), None, 99),
        (PollingStrategy.timestamp(35), None, 4),
        (PollingStrategy.timestamp(0), None, 2),
        (PollingStrategy.timestamp(1000), None, 10),
        (PollingStrategy.first(), None, 2),
        (PollingStrategy.last(), None, 7),
        (PollingStrategy.next(), None, 2),
        (PollingStrategy.next(), 5, 6),
    ],
)
def test_where_a_poll_of_three_starts(
    strategy: PollingStrategy, stored: int | None, expected: int
) -> None:
    log = log_of(10)
    log.delete_segments(2)
    assert start_of(strategy, 3, log, stored) == expected


def test_the_last_messages_of_a_short_log_are_all_of_them() -> None:
    assert start_of(PollingStrategy.last(), 100, log_of(3), None) == 0
    assert start_of(PollingStrategy.last(), 100, log_of(0), None) == 0


def test_bodies_are_decrypted_and_what_no_key_opens_is_left_out() -> None:
    first = encrypted(batch_of([b"a", b"b"]), CIPHER)
    stamp(first, base_offset=10, timestamp=1, new_ids=lambda count: b"\1" * 16 * count)
    plain = numbered([b"stored before there was a key"], base_offset=12, timestamp=1)
    reading = Reading(10, 3, tail=[first.messages, plain.messages])
    clear = with_clear_bodies(reading, CIPHER)
    assert payloads_in(clear.materialise()) == [b"a", b"b"]
    assert (clear.count, clear.left_out, clear.last_offset) == (2, 1, 12)


def test_nothing_is_nothing_with_any_key() -> None:
    assert with_clear_bodies(Reading(5), CIPHER).count == 0
