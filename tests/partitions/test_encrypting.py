import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.partitions import CIPHER
from tests.support.work import finished

from borzoi.partitions.encrypting import decrypted, encrypted, encrypting
from borzoi.records.batch import Batch, stamp, verify, walk
from borzoi.records.header import HEADER, unpack_header
from borzoi.security.encryption import OVERHEAD_BYTES, STEP_BYTES, Cipher

GOLDEN = Path(__file__).parents[1] / "golden/data/encrypted/data/streams/0/topics/0/partitions/0"
GOLDEN_KEY = "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="


def batch_of(*bodies: tuple[bytes, bytes]) -> Batch:
    return walk(
        memoryview(
            bytearray().join(
                HEADER.pack(0, bytes([i + 1]) * 16, 0, 0, 77, len(headers), len(payload), 0)
                + payload
                + headers
                for i, (payload, headers) in enumerate(bodies)
            )
        )
    )


def ids(count: int) -> bytes:
    return random.Random(count).randbytes(16 * count)


@given(st.lists(st.tuples(st.binary(max_size=40), st.binary(max_size=40)), max_size=20))
def test_what_was_encrypted_reads_as_it_was_sent(bodies):
    sent = batch_of(*bodies)
    stored = encrypted(sent, CIPHER)
    grown = sum(OVERHEAD_BYTES * (2 if headers else 1) for _, headers in bodies)
    assert (len(stored), stored.size) == (len(sent), sent.size + grown)
    read = decrypted(stored.messages, CIPHER)
    assert (read.messages, read.count, read.unreadable) == (sent.messages, len(bodies), 0)


def test_the_header_stays_clear_and_the_checksum_covers_what_is_stored():
    sent = batch_of((b"payload", b"headers"), (b"", b""))
    stored = encrypted(sent, CIPHER)
    stamp(stored, base_offset=5, timestamp=9, new_ids=ids)
    assert verify(stored) is None
    header = unpack_header(stored.messages, 0)
    assert (header.offset, header.timestamp, header.origin_timestamp) == (5, 9, 77)
    assert (header.payload_length, header.user_headers_length) == (35, 35)
    assert b"payload" not in stored.messages.tobytes()
    read = decrypted(stored.messages, CIPHER)
    assert unpack_header(read.messages, 0).checksum == header.checksum
    assert unpack_header(read.messages, 0).payload_length == 7


def test_a_message_that_no_key_fits_is_left_out_and_counted():
    stored = encrypted(batch_of((b"one", b""), (b"two", b"h"), (b"three", b"")), CIPHER)
    middle = int(stored.ends[0])
    stored.messages[middle + 70] ^= 1
    read = decrypted(stored.messages, CIPHER)
    assert (read.count, read.unreadable) == (2, 1)
    payloads = [
        bytes(read.messages[start + 64 : end]) for start, end in walk(read.messages).bounds()
    ]
    assert payloads == [b"one", b"three"]


def test_messages_that_were_never_encrypted_are_unreadable_not_a_crash():
    plain = batch_of((b"x" * 100, b""), (b"", b""))
    read = decrypted(plain.messages, CIPHER)
    assert (read.count, read.unreadable) == (0, 2)


def test_the_segment_of_a_published_server_is_readable():
    stored = memoryview((GOLDEN / "00000000000000000000.log").read_bytes())
    read = decrypted(stored, Cipher(GOLDEN_KEY))
    payloads = []
    for start, _ in walk(read.messages).bounds():
        header = unpack_header(read.messages, start)
        payloads.append(bytes(read.messages[start + 64 : start + 64 + header.payload_length]))
    assert payloads == [b"secret-0", b"secret-1", b"", b"secret-3" * 10]
    assert (read.count, read.unreadable) == (4, 0)


@pytest.mark.parametrize("count", [0, 1, 200])
def test_batches_of_any_count_are_encrypted(count):
    stored = encrypted(batch_of(*[(b"p", b"")] * count), CIPHER)
    assert len(stored) == count


@pytest.mark.parametrize(
    "sizes", [[5 * STEP_BYTES + 1], [STEP_BYTES // 4] * 20, [100] * 200, [STEP_BYTES, 10], []]
)
@pytest.mark.parametrize("headers", [b"", b"user headers"])
def test_much_is_encrypted_in_shares(sizes, headers):
    sent = batch_of(*((random.Random(size).randbytes(size), headers) for size in sizes))
    stored, shares = finished(encrypting(sent, CIPHER))
    assert shares >= sent.size // (2 * STEP_BYTES)
    assert stored.count == sent.count
    assert decrypted(stored.messages, CIPHER).messages == sent.messages
