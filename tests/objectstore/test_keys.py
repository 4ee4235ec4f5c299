import pytest

from borzoi.objectstore.errors import InvalidKey
from borzoi.objectstore.keys import KEY_BYTES_MAX, checked_key, checked_prefix, joined


@pytest.mark.parametrize(
    "key", ["a", "a/b", "A-Z_0.9=x/..a/b..", "x" * KEY_BYTES_MAX, "...", "a/.b"]
)
def test_plain_keys_pass_unchanged(key: str) -> None:
    assert checked_key(key) == key


@pytest.mark.parametrize(
    "key",
    [
        *("", "/", "a/", "/a", "a//b", ".", "..", "a/./b", "../a", "a/.."),
        *("ü", "a b", "a%20", "a~b", "a\n", "x" * (KEY_BYTES_MAX + 1)),
    ],
)
def test_a_key_that_a_store_could_change_is_named_in_the_error(key: str) -> None:
    with pytest.raises(InvalidKey, match="is not a key"):
        checked_key(key)


@pytest.mark.parametrize("prefix", ["", "a", "a/", "a/b", "a/b/"])
def test_a_prefix_may_be_empty_and_end_with_a_slash(prefix: str) -> None:
    assert checked_prefix(prefix) == prefix


@pytest.mark.parametrize("prefix", ["/", "//", "/a", "a//", "../"])
def test_other_prefixes_are_refused(prefix: str) -> None:
    with pytest.raises(InvalidKey):
        checked_prefix(prefix)


def test_empty_parts_leave_no_slash() -> None:
    assert joined("a", "", "b/c") == "a/b/c"
    assert joined("", "") == ""
