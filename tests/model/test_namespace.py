import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.model.errors import LimitReached
from borzoi.model.limits import PARTITIONS_PER_TOPIC_MAX, STREAMS_MAX, TOPICS_PER_STREAM_MAX
from borzoi.model.namespace import Namespace, pack, shard_of, unpack

namespaces = st.builds(
    Namespace,
    st.integers(0, STREAMS_MAX - 1),
    st.integers(0, TOPICS_PER_STREAM_MAX - 1),
    st.integers(0, PARTITIONS_PER_TOPIC_MAX - 1),
)


@pytest.mark.parametrize(
    ("namespace", "packed", "shards"),
    [
        (Namespace(0, 0, 0), 0x0, (1, 1, 1, 5, 5)),
        (Namespace(0, 0, 1), 0x1, (1, 0, 3, 7, 7)),
        (Namespace(0, 0, 2), 0x2, (1, 1, 3, 7, 15)),
        (Namespace(0, 0, 3), 0x3, (1, 0, 3, 3, 11)),
        (Namespace(1, 0, 0), 0x1_0000_0000, (0, 1, 0, 0, 8)),
        (Namespace(1, 1, 1), 0x1_0010_0001, (1, 1, 1, 1, 1)),
        (Namespace(4095, 4095, 999_999), 0xFFF_FFFF_423F, (0, 1, 2, 2, 2)),
    ],
)
def test_a_partition_lives_on_the_published_shard(
    namespace: Namespace, packed: int, shards: tuple[int, ...]
) -> None:
    assert pack(namespace) == packed
    assert tuple(shard_of(namespace, count) for count in (2, 3, 4, 8, 16)) == shards


@given(namespaces)
def test_a_packed_namespace_unpacks_to_itself(namespace: Namespace) -> None:
    assert unpack(pack(namespace)) == namespace


@given(namespaces, namespaces)
def test_packing_keeps_the_order_of_namespaces(one: Namespace, other: Namespace) -> None:
    assert (pack(one) < pack(other)) == (one < other)


@given(namespaces, st.integers(1, 64))
def test_every_partition_has_an_owner_among_the_shards(namespace: Namespace, shards: int) -> None:
    assert 0 <= shard_of(namespace, shards) < shards


@pytest.mark.parametrize(
    "namespace",
    [
        Namespace(STREAMS_MAX, 0, 0),
        Namespace(0, TOPICS_PER_STREAM_MAX, 0),
        Namespace(0, 0, PARTITIONS_PER_TOPIC_MAX),
        Namespace(-1, 0, 0),
        Namespace(0, -1, 0),
        Namespace(0, 0, -1),
    ],
)
def test_what_does_not_fit_is_refused_instead_of_masked(namespace: Namespace) -> None:
    with pytest.raises(LimitReached, match=str(namespace)):
        pack(namespace)


def test_a_namespace_reads_like_a_path() -> None:
    assert str(Namespace(1, 2, 3)) == "1/2/3"
