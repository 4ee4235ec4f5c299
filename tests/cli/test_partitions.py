import pytest
from tests.support.command_line import assert_said, in_formats

pytestmark = pytest.mark.system


@pytest.mark.parametrize(
    ("form", "names"), in_formats(("partition", "create", "delete"), ("p", "c", "d"))
)
def test_partitions_come_and_go(borzoi, client, stream, form, names):
    group, create, delete = names
    more = borzoi.document(group, create, "shop/orders", 3, form=form)
    assert client.get_topic("shop/orders").partitions_count == 5
    fewer = borzoi.document(group, delete, "shop", "orders", 2, form=form)
    assert client.get_topic("shop/orders").partitions_count == 3
    assert_said(more, form, "3 partitions were added to topic shop/orders.", {"created": 3})
    assert_said(fewer, form, "2 partitions were removed from topic shop/orders.", {"deleted": 2})


@pytest.mark.parametrize(("form", "names"), in_formats(("segment", "delete"), ("seg", "d")))
def test_sealed_segments_are_deleted_and_the_open_one_stays(borzoi, client, stream, form, names):
    said = borzoi.document(*names, "shop/orders", 0, 1, form=form)
    assert client.get_topic("shop/orders").messages_count == 8
    assert_said(said, form, "Up to 1 segments of shop/orders/0 were deleted.", {"requested": 1})


@pytest.mark.parametrize("count", ["0", "-1", "x", "100001"])
def test_a_count_is_a_number_within_bounds(borzoi, stream, count):
    said = borzoi.refused(2, "partition", "create", "--", "shop/orders", count)
    assert f"{count!r} is not a count; 1 to 100000 is allowed" in said


def test_what_is_missing_is_named(borzoi):
    assert "exactly one COUNT" in borzoi.invoke("partition", "create", "a", "b").stderr
    assert "a partition and a count" in borzoi.invoke("segment", "delete", "a", "b", "1").stderr
