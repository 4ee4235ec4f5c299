"""Who owns a partition, as every shard computes it."""

import pytest

from borzoi.model.namespace import Namespace
from borzoi.shard import ownership as module
from borzoi.shard.ownership import Ownership


@pytest.mark.parametrize(
    ("namespace", "owners"),
    [
        (Namespace(0, 0, 0), {2: 1, 3: 1, 4: 1, 8: 5, 16: 5}),
        (Namespace(0, 0, 1), {2: 1, 3: 0, 4: 3, 8: 7, 16: 7}),
        (Namespace(0, 0, 2), {2: 1, 3: 1, 4: 3, 8: 7, 16: 15}),
        (Namespace(0, 0, 3), {2: 1, 3: 0, 4: 3, 8: 3, 16: 11}),
        (Namespace(1, 0, 0), {2: 0, 3: 1, 4: 0, 8: 0, 16: 8}),
        (Namespace(1, 1, 1), {2: 1, 3: 1, 4: 1, 8: 1, 16: 1}),
        (Namespace(4095, 4095, 999_999), {2: 0, 3: 1, 4: 2, 8: 2, 16: 2}),
    ],
)
def test_the_owner_is_that_of_the_published_servers(namespace, owners):
    for count, owner in owners.items():
        assert Ownership(0, count).owner_of(namespace) == owner


def test_each_partition_is_owned_by_exactly_one_shard():
    shards = [Ownership(shard, 3) for shard in range(3)]
    for number in range(200):
        namespace = Namespace(1, 2, number)
        assert sum(shard.is_own(namespace) for shard in shards) == 1


def test_the_memory_of_owners_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "REMEMBERED_MAX", 10)
    own = Ownership(0, 2)
    first = [own.owner_of(Namespace(0, 0, number)) for number in range(35)]
    assert len(own._owners) <= 10
    assert [own.owner_of(Namespace(0, 0, number)) for number in range(35)] == first


def test_a_shard_is_one_of_all():
    with pytest.raises(AssertionError):
        Ownership(2, 2)
