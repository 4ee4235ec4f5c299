import msgspec
import pytest

from borzoi.model.value import Value, like


class Point(Value):
    x: int
    y: int = 0


class Named(Point, array_like=True):
    name: str = ""


def test_a_value_is_compared_and_hashed_by_its_fields() -> None:
    assert Point(1) == Point(1, 0) != Point(2)
    assert len({Point(1), Point(1, 0), Point(2)}) == 2


@pytest.mark.parametrize("value", [Point(1), Named(1)])
def test_a_value_cannot_be_modified_nor_can_one_of_a_subclass(value: Point) -> None:
    with pytest.raises(AttributeError, match="immutable"):
        value.x = 2  # type: ignore[misc]
    assert msgspec.structs.replace(value, x=2).x == 2


def test_a_subclass_adds_what_its_layout_needs() -> None:
    assert msgspec.json.encode(Point(1, 2)) == b'{"x":1,"y":2}'
    assert msgspec.json.encode(Named(1, 2, "n")) == b'[1,2,"n"]'


def test_a_struct_like_another_has_its_fields_except_those_given() -> None:
    assert like(Point, Named(1, 2, "n"), y=3) == Point(1, 3)
    assert like(Named, Point(1, 2), name="n") == Named(1, 2, "n")


def test_nothing_can_be_given_that_is_no_field() -> None:
    with pytest.raises(TypeError, match="'z'"):
        like(Point, Named(1), z=3)
