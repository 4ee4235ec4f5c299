import pytest
from tests.support.messages_read import message

from borzoi.cli.expressions import NAMES, condition
from borzoi.model.errors import InvalidFormat

ORDER = message('{"price": 12, "who": {"name": "ann"}, "tags": ["a", "b"]}', 5, kind="order", n=3)


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("json.price > 10", True),
        ("json.price > 10 and headers.kind == 'order'", True),
        ("json.price > 100 or offset == 5", True),
        ("not json.price > 10", False),
        ("json.who.name == 'ann'", True),
        ("json['who']['name'] == 'ann'", True),
        ("json.tags[1] == 'b'", True),
        ("'a' in json.tags", True),
        ("'z' not in json.tags", True),
        ("json.absent.deeper == None", True),
        ("json.absent > 3", False),
        ("json.price < 'x'", False),
        ("10 < json.price <= 12", True),
        ("-1 < offset", True),
        ("headers.n in (1, 2, 3)", True),
        ("size > 20 and partition == 0 and id == 6 and timestamp == 5000000", True),
        ("'price' in text", True),
        ("json.tags[7] == None", True),
    ],
)
def test_filters(text, passes):
    assert condition(text)(ORDER) is passes


def test_a_payload_that_is_no_json_has_no_fields():
    assert condition("json.price == None")(message("plain")) is True


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("price > 10", "a filter knows no 'price'; it knows partition, offset"),
        ("json.price >", "cannot be read"),
        ("len(text) > 3", "may not contain 'len(text)'"),
        ("json.price is None", "may not contain"),
        ("[x for x in json]", "may not contain"),
        ("__import__('os')", "may not contain"),
        ("(lambda: 1)", "may not contain"),
    ],
)
def test_what_a_filter_may_not_contain_is_named(text, sentence):
    with pytest.raises(InvalidFormat) as caught:
        condition(text)
    assert sentence in str(caught.value)


def test_every_name_can_be_asked_of_every_message():
    for name in NAMES:
        condition(f"{name} == None")(message(b"\xff"))
