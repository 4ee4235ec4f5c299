import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh32_intdigest

from borzoi.model.errors import InvalidKeyLength
from borzoi.model.limits import MESSAGES_KEY_BYTES_MAX, U32_MAX
from borzoi.model.partitioning import Partitioning, PartitioningKind, partition_for_key


def test_the_kinds_have_their_numbers_of_the_wire() -> None:
    assert [(kind.name, kind.value) for kind in PartitioningKind] == [
        ("BALANCED", 1),
        ("PARTITION_ID", 2),
        ("MESSAGES_KEY", 3),
    ]


def test_a_choice_holds_the_bytes_that_travel() -> None:
    assert Partitioning.balanced() == Partitioning(PartitioningKind.BALANCED, b"")
    assert Partitioning.partition(7) == Partitioning(PartitioningKind.PARTITION_ID, b"\7\0\0\0")
    assert Partitioning.key(b"k") == Partitioning(PartitioningKind.MESSAGES_KEY, b"k")


@given(st.integers(0, U32_MAX))
def test_the_partition_that_was_named_is_read_back(partition_id: int) -> None:
    assert Partitioning.partition(partition_id).partition_id == partition_id


def test_a_key_has_at_least_one_byte_and_at_most_what_its_length_can_say() -> None:
    assert Partitioning.key(b"k" * MESSAGES_KEY_BYTES_MAX).kind is PartitioningKind.MESSAGES_KEY
    for key in (b"", b"k" * (MESSAGES_KEY_BYTES_MAX + 1)):
        with pytest.raises(InvalidKeyLength):
            Partitioning.key(key)


@pytest.mark.parametrize(
    ("key", "partitions_count", "partition_id"),
    [
        (b"key-1", 3, 1),
        (b"key-1", 4, 1),
        (b"user-1", 3, 0),
        (b"user-1", 8, 5),
    ],
)
def test_a_key_goes_where_the_published_servers_send_it(
    key: bytes, partitions_count: int, partition_id: int
) -> None:
    assert partition_for_key(key, partitions_count) == partition_id


def test_keys_are_hashed_with_xxh32() -> None:
    assert xxh32_intdigest(b"key") == 3017358048
    assert partition_for_key(b"key", U32_MAX) == 3017358048


@given(st.binary(min_size=1, max_size=MESSAGES_KEY_BYTES_MAX), st.integers(1, 1000))
def test_a_key_always_finds_a_partition(key: bytes, partitions_count: int) -> None:
    assert 0 <= partition_for_key(key, partitions_count) < partitions_count
