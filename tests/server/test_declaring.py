import pytest

from borzoi.model.errors import InvalidConfiguration
from borzoi.server.declaring import (
    Section,
    keys_of,
    parsed_section,
    section,
    setting,
    shown_section,
    tables,
)
from borzoi.server.kinds import TEXT, count


class Node(Section):
    name: str = setting(TEXT, "", "its name")


class Inner(Section):
    size: int = setting(count(0, 9), 3, "how many")
    key: str = setting(TEXT, "", "a secret", secret=True)


class Outer(Section):
    inner: Inner = section(Inner)
    nodes: tuple[Node, ...] = tables(Node, "nodes")


def test_every_key_has_its_path_and_its_variable() -> None:
    keys = list(keys_of(Outer))
    assert [key.path for key in keys] == ["inner.size", "inner.key", "nodes[].name"]
    assert keys[0].variable == "INNER_SIZE"


def test_what_is_given_replaces_the_defaults() -> None:
    assert parsed_section(Outer, {}) == Outer()
    made = parsed_section(Outer, {"inner": {"size": "4"}, "nodes": [{"name": "a"}, {}]})
    assert made.inner.size == 4
    assert [node.name for node in made.nodes] == ["a", ""]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"inner": {"size": 10}}, ["inner.size", "10", "0 to 9"]),
        ({"inner": 3}, ["inner", "section", "3"]),
        ({"nodes": 3}, ["nodes", "array of tables"]),
        ({"nodes": [{"name": []}]}, ["nodes[0].name", "text"]),
        (3, ["section"]),
    ],
)
def test_a_fault_names_the_key_the_value_and_what_is_allowed(given, words: list[str]) -> None:
    with pytest.raises(InvalidConfiguration) as refused:
        parsed_section(Outer, given)
    for word in words:
        assert word in str(refused.value)


def test_secrets_are_masked_and_kept_out_of_errors_and_repr() -> None:
    made = parsed_section(Outer, {"inner": {"key": "hidden"}})
    assert shown_section(made)["inner"]["key"] == "******"
    assert shown_section(made, secrets=True)["inner"]["key"] == "hidden"
    assert shown_section(Outer())["inner"]["key"] == ""
    assert "hidden" not in repr(made)
    with pytest.raises(InvalidConfiguration) as refused:
        parsed_section(Outer, {"inner": {"key": ["hidden"]}})
    assert "hidden" not in str(refused.value)


def test_a_section_is_an_immutable_value() -> None:
    made = Inner(size=4)
    assert made == Inner().replaced(size=4) != Inner()
    assert made.replaced(key="k") == Inner(size=4, key="k")
    assert made != 4
    assert len({made, Inner(size=4), Inner()}) == 2
    with pytest.raises(AttributeError):
        made.size = 5  # type: ignore[misc]
    with pytest.raises(TypeError):
        Inner(sise=5)  # type: ignore[call-arg]
    assert repr(Outer(inner=made)) == "Outer(inner=Inner(size=4), nodes=())"


def test_a_default_that_is_not_allowed_is_found_when_the_section_is_declared() -> None:
    with pytest.raises(ValueError):

        class Wrong(Section):
            size: int = setting(count(0, 9), 10, "how many")
