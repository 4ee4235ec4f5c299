import pytest

from borzoi.server import kinds
from borzoi.server.declaring import Kind
from borzoi.server.kinds import choice, count


@pytest.mark.parametrize(
    ("kind", "given", "parsed"),
    [
        (kinds.FLAG, True, True),
        (kinds.FLAG, "False", False),
        (kinds.TEXT, "a", "a"),
        (kinds.TEXTS, ["a", "b"], ("a", "b")),
        (kinds.TEXTS, '["a", "b"]', ("a", "b")),
        (kinds.TEXTS, "a,b", ("a", "b")),
        (kinds.TEXTS, "[]", ()),
        (kinds.ADDRESS, "127.0.0.1:8090", ("127.0.0.1", 8090)),
        (kinds.ADDRESS, "[::1]:0", ("::1", 0)),
        (kinds.DURATION, "1h 1m 1s", 3661_000_000),
        (kinds.BYTES, "1 KiB", 1024),
        (kinds.BYTES_OR_UNSET, "", None),
        (kinds.BYTES_OR_UNSET, "64 KB", 64_000),
        (kinds.EXPIRY, "none", 2**64 - 1),
        (kinds.MAX_SIZE, "unlimited", 2**64 - 1),
        (kinds.CPU_ALLOCATION, 4, "4"),
        (kinds.CPU_ALLOCATION, "numa:nodes=0,1;cores=4", "numa:nodes=0,1;cores=4"),
        (count(1, 5), "5", 5),
        (choice("all", "true"), True, "true"),
        (choice("HS256"), "hs256", "HS256"),
    ],
)
def test_values_are_read_the_ways_people_write_them(kind: Kind, given, parsed) -> None:
    assert kind.parse(given) == parsed
    assert kind.parse(kind.show(parsed)) == parsed


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (kinds.FLAG, "yes"),
        (kinds.FLAG, 1),
        (kinds.TEXT, True),
        (kinds.TEXT, 3),
        (kinds.PATH, 5),
        (kinds.TEXTS, [1]),
        (kinds.ADDRESS, "localhost"),
        (kinds.ADDRESS, "::1:8090"),
        (kinds.ADDRESS, "127.0.0.1:70000"),
        (kinds.ADDRESS, 8090),
        (kinds.ADDRESS, "127.0.0.1:\u0668\u0660\u0669\u0660"),
        (kinds.ADDRESS, "127.0.0.1:8090\n"),
        (kinds.CPU_ALLOCATION, "\u0664"),
        (kinds.DURATION, "soon"),
        (kinds.DURATION, True),
        (kinds.BYTES, "1 Gb"),
        (kinds.BYTES, 1.5),
        (kinds.BYTES, float("inf")),
        (kinds.BYTES, float("nan")),
        (kinds.BYTES, ["1 KB"]),
        (kinds.BYTES_OR_UNSET, 1.5),
        (kinds.MAX_SIZE, 1.5),
        (kinds.EXPIRY, 1.5),
        (kinds.PATH, "a\0b"),
        (kinds.CPU_ALLOCATION, "0"),
        (kinds.CPU_ALLOCATION, "some"),
        (count(1, 5), 0),
        (count(1, 5), 6),
        (count(1, 5), True),
        (count(1, 5), "five"),
        (choice("a", "b"), "c"),
    ],
)
def test_what_is_not_allowed_is_refused(kind: Kind, given) -> None:
    with pytest.raises((ValueError, TypeError)):
        kind.parse(given)
    assert kind.allowed
    assert kind.schema


def test_an_address_with_colons_is_shown_in_brackets() -> None:
    assert kinds.shown_address(("::1", 1)) == "[::1]:1"
