import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh32_intdigest

from borzoi.model.errors import InvalidFormat, InvalidIdentifier
from borzoi.model.identifiers import (
    NO_USER_ID,
    ROOT_USER_ID,
    Identifier,
    checked_identifier,
    checked_name,
    client_id_of,
    consumer_key,
    identifier_of,
)
from borzoi.model.limits import NAME_BYTES_MAX, U32_MAX

LONGEST = "é" * (NAME_BYTES_MAX // 2) + "e"


@pytest.mark.parametrize("identifier", [0, 1, U32_MAX, "s", "0", LONGEST])
def test_an_identifier_is_a_u32_or_a_name(identifier: Identifier) -> None:
    assert checked_identifier(identifier) == identifier


@pytest.mark.parametrize("identifier", [-1, U32_MAX + 1, "", LONGEST + "e", "n\udcff"])
def test_an_identifier_that_no_wire_carries_is_refused(identifier: Identifier) -> None:
    with pytest.raises(InvalidIdentifier):
        checked_identifier(identifier)


def test_a_name_is_measured_in_bytes() -> None:
    assert len(LONGEST) < len(LONGEST.encode()) == NAME_BYTES_MAX
    assert checked_name(LONGEST) == LONGEST
    for name in ("", LONGEST + "e", "n\udcff"):
        with pytest.raises(InvalidFormat):
            checked_name(name)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("my-consumer", 2115191887),
        ("user-42", 1635883646),
        ("key-1", 962816521),
        ("consumer", 456776205),
        ("order-42", 3150133969),
        ("", 46947589),
    ],
)
def test_the_key_of_a_named_consumer_is_the_hash_of_its_name(name: str, key: int) -> None:
    assert consumer_key(name) == key


def test_the_key_of_a_numbered_consumer_is_its_number() -> None:
    assert consumer_key(7) == 7
    assert xxh32_intdigest((7).to_bytes(4, "little")) == 3867920632
    assert xxh32_intdigest((7).to_bytes(8, "little")) == 3913589855


@pytest.mark.parametrize(
    ("address", "client_id"), [("127.0.0.1:54321", 2650268133), ("[::1]:54321", 396544680)]
)
def test_a_client_is_numbered_by_its_address(address: str, client_id: int) -> None:
    assert client_id_of(address) == client_id


@pytest.mark.parametrize(
    ("text", "identifier"),
    [
        ("0", 0),
        ("007", 7),
        (str(U32_MAX), U32_MAX),
        (str(U32_MAX + 1), str(U32_MAX + 1)),
        ("-1", "-1"),
        ("²", "²"),
        ("٣", "٣"),
        ("s1", "s1"),
    ],
)
def test_digits_that_people_type_are_a_number(text: str, identifier: Identifier) -> None:
    assert identifier_of(text) == identifier


def test_nothing_typed_identifies_nothing() -> None:
    with pytest.raises(InvalidIdentifier):
        identifier_of("")


@given(st.text(max_size=300))
def test_any_text_is_an_identifier_or_refused(text: str) -> None:
    try:
        identifier = identifier_of(text)
    except InvalidIdentifier:
        assert not 1 <= len(text.encode()) <= NAME_BYTES_MAX
    else:
        assert checked_identifier(identifier) == identifier


def test_no_user_and_root_are_the_two_ends() -> None:
    assert (ROOT_USER_ID, NO_USER_ID) == (0, U32_MAX)
