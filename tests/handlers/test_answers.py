from borzoi.handlers.answers import NOTHING_DELIVERED, Delivery
from borzoi.storage.reading import Reading


def test_a_delivery_says_where_its_messages_are() -> None:
    delivery = Delivery(2, 41, Reading(40, 2, tail=[memoryview(b"ab"), memoryview(b"c")]))
    assert (delivery.reading.count, delivery.reading.size) == (2, 3)
    assert delivery.reading.materialise() == b"abc"


def test_a_member_without_a_partition_gets_no_messages() -> None:
    assert NOTHING_DELIVERED.reading.count == 0
    assert NOTHING_DELIVERED.reading.materialise() == b""
