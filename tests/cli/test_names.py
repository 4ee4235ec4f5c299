import click
import pytest

from borzoi.cli.names import IDENTIFIER, TOPIC, shown_topic, topic_of


@pytest.mark.parametrize(("text", "found"), [("12", 12), ("orders", "orders"), ("1a", "1a")])
def test_a_number_is_an_id_and_the_rest_are_names(text, found):
    assert IDENTIFIER.convert(text, None, None) == found


def test_a_topic_is_written_with_its_stream():
    assert TOPIC.convert("shop/3", None, None) == ("shop", 3)
    assert shown_topic(("shop", 3)) == "shop/3"


@pytest.mark.parametrize("text", ["shop", "/orders", "shop/", "a/b/c", ""])
def test_what_is_no_topic_is_refused(text):
    with pytest.raises(click.BadParameter, match="write STREAM/TOPIC"):
        TOPIC.convert(text, None, None)


def test_an_empty_name_is_refused():
    with pytest.raises(click.BadParameter, match="not an empty text"):
        IDENTIFIER.convert("", None, None)


@pytest.mark.parametrize(
    ("parts", "rest", "found"),
    [
        (("shop", "orders"), 0, (("shop", "orders"), [])),
        (("shop/orders",), 0, (("shop", "orders"), [])),
        (("shop/orders",), 1, (("shop", "orders"), [])),
        (("shop", "orders", "3"), 1, (("shop", "orders"), ["3"])),
        (("shop/orders", "3"), 1, (("shop", "orders"), ["3"])),
    ],
)
def test_both_forms_of_a_topic(parts, rest, found):
    assert topic_of(parts, rest=rest) == found


def test_half_a_topic_is_refused():
    with pytest.raises(click.UsageError, match="a topic is needed"):
        topic_of(("shop",))
