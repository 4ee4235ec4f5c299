from borzoi.model.consuming import Consumer, ConsumerKind, PollingKind, PollingStrategy


def test_the_kinds_have_their_numbers_of_the_wire() -> None:
    assert [(kind.name, kind.value) for kind in ConsumerKind] == [("CONSUMER", 1), ("GROUP", 2)]
    assert [(kind.name, kind.value) for kind in PollingKind] == [
        ("OFFSET", 1),
        ("TIMESTAMP", 2),
        ("FIRST", 3),
        ("LAST", 4),
        ("NEXT", 5),
    ]


def test_a_strategy_carries_a_value_only_where_one_is_used() -> None:
    assert PollingStrategy.offset(7) == PollingStrategy(PollingKind.OFFSET, 7)
    assert PollingStrategy.timestamp(9) == PollingStrategy(PollingKind.TIMESTAMP, 9)
    assert PollingStrategy.first() == PollingStrategy(PollingKind.FIRST, 0)
    assert PollingStrategy.last() == PollingStrategy(PollingKind.LAST, 0)
    assert PollingStrategy.next() == PollingStrategy(PollingKind.NEXT, 0)


def test_consumers_are_values() -> None:
    assert Consumer(ConsumerKind.GROUP, "g1") == Consumer(ConsumerKind.GROUP, "g1")
    assert len({Consumer(ConsumerKind.CONSUMER, 1), Consumer(ConsumerKind.GROUP, 1)}) == 2
