from borzoi.memory.pool import BUCKET_BYTES
from borzoi.model import limits


def test_every_limit_is_positive_but_the_one_that_means_the_default() -> None:
    values = {name: value for name, value in vars(limits).items() if name.isupper()}
    assert [name for name, value in values.items() if value <= 0] == ["SERVER_DEFAULT"]


def test_a_namespace_packs_without_masking() -> None:
    assert limits.STREAMS_MAX <= 1 << 12
    assert limits.TOPICS_PER_STREAM_MAX <= 1 << 12
    assert limits.PARTITIONS_PER_TOPIC_MAX <= 1 << 20


def test_the_largest_message_fits_a_segment_and_its_lengths_fit_their_fields() -> None:
    largest = limits.HEADER_BYTES + limits.PAYLOAD_BYTES_MAX + limits.USER_HEADERS_BYTES_MAX
    assert largest < limits.SEGMENT_BYTES_MAX <= limits.U32_MAX
    assert limits.NAME_BYTES_MAX == limits.MESSAGES_KEY_BYTES_MAX == limits.U8_MAX


def test_unauthenticated_clients_hold_less_memory_than_authenticated_ones() -> None:
    assert limits.UNAUTHENTICATED_BYTES_MAX < limits.CONTROL_PAYLOAD_BYTES_MAX
    assert limits.NEVER == limits.UNLIMITED == limits.U64_MAX


def test_the_largest_batch_is_what_the_pool_keeps_a_buffer_for() -> None:
    assert BUCKET_BYTES[-1] == limits.BATCH_BYTES_MAX


def test_the_length_of_the_largest_poll_fits_its_field() -> None:
    largest = limits.HEADER_BYTES + limits.PAYLOAD_BYTES_MAX + limits.USER_HEADERS_BYTES_MAX
    assert limits.POLLED_BYTES_MAX + largest < limits.U32_MAX
