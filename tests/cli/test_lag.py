import pytest
from tests.support.command_line import in_formats

from borzoi.cli.lag import behind, lag_of, totals_of


@pytest.mark.parametrize(
    ("stored", "last", "count", "lag"),
    [
        (None, 0, 0, 0),
        (None, 9, 10, 10),
        (None, 9, 4, 4),
        (9, 9, 10, 0),
        (3, 9, 10, 6),
        (3, 9, 2, 2),
        (12, 9, 10, 0),
    ],
)
def test_messages_behind_the_stored_offset(stored, last, count, lag):
    assert behind(stored, last, count) == lag


def test_totals_by_topic_and_group():
    rows = [
        {"topic": "a/b", "group": "g", "lag": 2},
        {"topic": "a/b", "group": "g", "lag": 3},
        {"topic": "a/c", "group": "g", "lag": 1},
    ]
    assert totals_of(rows) == [
        {"topic": "a/b", "group": "g", "lag": 5},
        {"topic": "a/c", "group": "g", "lag": 1},
    ]


@pytest.mark.system
@pytest.mark.parametrize(("form", "names"), in_formats(("lag",)))
def test_the_lag_of_a_group_that_has_read_a_part(borzoi, client, stream, form, names):
    client.create_consumer_group("shop/orders", "billing")
    client.join_consumer_group("shop/orders", "billing")
    client.store_consumer_offset("shop/orders", 1, partition=0, group="billing")
    said = borzoi.document(*names, "shop/orders", form=form)
    totals = borzoi.document(*names, "--total", "-g", "billing", form=form)
    if form == "table":
        assert "billing" in said
        assert "6" in totals
    else:
        assert [(one["partition"], one["offset"], one["lag"]) for one in said] == [
            (0, 1, 2),
            (1, None, 4),
        ]
        assert said == lag_of(client, ("shop", "orders"))
        assert totals == [{"topic": "shop/orders", "group": "billing", "lag": 6}]
    assert lag_of(client, ("shop", "orders"), "another") == []
    assert lag_of(client, ("shop", "absent")) == []
