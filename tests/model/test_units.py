import doctest
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from borzoi.model import units
from borzoi.model.errors import InvalidFormat
from borzoi.model.limits import NEVER, SERVER_DEFAULT, U32_MAX, U64_MAX, UNLIMITED
from borzoi.model.units import (
    BYTE_UNITS,
    DAY,
    DURATION_UNITS,
    EXPIRY_MAX,
    HOUR,
    MINUTE,
    SECOND,
    WEEK,
)

u64 = st.integers(0, U64_MAX)
PARSERS = (units.parse_bytes, units.parse_duration, units.parse_expiry, units.parse_max_size)


def test_the_examples_of_the_module_hold() -> None:
    outcome = doctest.testmod(units)
    assert outcome.attempted == 3
    assert outcome.failed == 0


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (0, 0),
        (1048576, 1 << 20),
        ("1048576", 1 << 20),
        ("0 B", 0),
        ("7B", 7),
        ("100 KB", 100_000),
        ("2 MB", 2_000_000),
        ("4 GB", 4_000_000_000),
        ("1 TB", 10**12),
        ("64KiB", 65_536),
        ("1 MiB", 1 << 20),
        (" 1 GiB ", 1 << 30),
        ("4 GiB", 4 << 30),
        ("1.5 GiB", 3 << 29),
        ("1.103 KB", 1103),
        (str(U64_MAX), U64_MAX),
    ],
)
def test_a_size_is_a_number_with_or_without_a_unit(text: str | int, size: int) -> None:
    assert units.parse_bytes(text) == size


@pytest.mark.parametrize(
    "text",
    ["", "GiB", "1 gb", "1 Gb", "1 XB", "-1", "1,5 GB", "1 GB 1 MB", "0x10", "1e6", "٣ B"],
)
def test_a_text_that_is_no_size_is_named_together_with_what_is_allowed(text: str) -> None:
    with pytest.raises(InvalidFormat) as refused:
        units.parse_bytes(text)
    assert repr(text) in str(refused.value)
    assert "KiB" in str(refused.value)


@pytest.mark.parametrize("text", ["0.5 B", "1.0001 KB", "1.5"])
def test_half_a_byte_is_refused(text: str) -> None:
    with pytest.raises(InvalidFormat, match="not a whole number"):
        units.parse_bytes(text)


@pytest.mark.parametrize("value", [-1, U64_MAX + 1, "18446744073709551616", "16 EiB", True])
def test_a_size_that_no_field_holds_is_refused(value: str | int) -> None:
    with pytest.raises(InvalidFormat, match="at most 18446744073709551615"):
        units.parse_bytes(value)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (972, "972 B"),
        (1000, "1 KB"),
        (1024, "1 KiB"),
        (1103, "1.103 KB"),
        (1536, "1.5 KiB"),
        (36 * 1024, "36 KiB"),
        (1_048_576, "1 MiB"),
        (1 << 30, "1 GiB"),
        # As the published server printed them: a binary unit goes before the decimal one.
        (89_939_968, "87832 KiB"),
        (25_274_793_984, "24682416 KiB"),
    ],
)
def test_a_size_is_printed_in_the_largest_unit_that_is_exact(size: int, text: str) -> None:
    assert units.format_bytes(size) == text


@given(u64)
@example(U64_MAX)
def test_a_printed_size_reads_back_as_itself(size: int) -> None:
    text = units.format_bytes(size)
    number, unit = text.split(" ")
    assert units.parse_bytes(text) == size
    assert unit in BYTE_UNITS
    assert len(number.partition(".")[2]) <= 3


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1, "1 B"), (999, "999 B"), (1500, "1.50 KB"), (1 << 30, "1.07 GB")],
)
def test_a_rough_size_has_a_decimal_unit_and_two_decimals(size: int, text: str) -> None:
    assert units.format_bytes_roughly(size) == text


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("30s", 30 * SECOND),
        ("30 s", 30 * SECOND),
        ("1 m", MINUTE),
        ("1h 1m 1s", HOUR + MINUTE + SECOND),
        ("1h1m1s", HOUR + MINUTE + SECOND),
        ("1 H", HOUR),
        ("7 days", WEEK),
        ("1 week 1 day", 8 * DAY),
        ("500ms", 500_000),
        ("10 us", 10),
        ("10µs", 10),
        ("1.5h", 90 * MINUTE),
        ("1 month", 2_629_800 * SECOND),
        ("1 year", 31_557_600 * SECOND),
        ("0", 0),
        ("0 s", 0),
        (0, 0),
        ("none", 0),
        ("Disabled", 0),
        ("unlimited", 0),
    ],
)
def test_a_duration_is_the_sum_of_its_parts(text: str | int, duration: int) -> None:
    assert units.parse_duration(text) == duration


@pytest.mark.parametrize(
    "text", ["", " ", "s", "30", 30, True, "-1s", "1 fortnight", "1s x", "1h and 1m", "1..5s"]
)
def test_a_text_that_is_no_duration_is_named_together_with_what_is_allowed(text: str) -> None:
    with pytest.raises(InvalidFormat) as refused:
        units.parse_duration(text)
    assert repr(text) in str(refused.value)
    assert "1h 1m 1s" in str(refused.value)


def test_a_duration_is_whole_microseconds_that_fit_a_field() -> None:
    with pytest.raises(InvalidFormat, match="not a whole number"):
        units.parse_duration("0.5us")
    with pytest.raises(InvalidFormat, match="at most"):
        units.parse_duration("600000 years")


@given(u64)
def test_a_printed_duration_reads_back_as_itself(duration: int) -> None:
    assert units.parse_duration(units.format_duration(duration)) == duration


@given(st.lists(st.tuples(st.integers(0, 99), st.sampled_from(sorted(DURATION_UNITS))), min_size=1))
def test_the_parts_of_a_duration_add_up_in_any_order(parts: list[tuple[int, str]]) -> None:
    text = " ".join(f"{count}{word}" for count, word in parts)
    assert units.parse_duration(text) == sum(count * DURATION_UNITS[word] for count, word in parts)


@pytest.mark.parametrize(
    ("text", "expiry"),
    [
        ("none", NEVER),
        ("Unlimited", NEVER),
        ("never_expire", NEVER),
        ("server_default", SERVER_DEFAULT),
        ("default", SERVER_DEFAULT),
        ("1 h", HOUR),
        (f"{U32_MAX} s", EXPIRY_MAX),
    ],
)
def test_an_expiry_is_a_duration_or_a_word(text: str, expiry: int) -> None:
    assert units.parse_expiry(text) == expiry


@pytest.mark.parametrize("text", ["0", 0, "0s", "disabled", f"{U32_MAX + 1} s"])
def test_an_expiry_that_fields_would_read_differently_is_refused(text: str | int) -> None:
    with pytest.raises(InvalidFormat, match="never_expire or server_default"):
        units.parse_expiry(text)


@given(st.one_of(st.integers(1, EXPIRY_MAX), st.sampled_from([NEVER, SERVER_DEFAULT])))
def test_a_printed_expiry_reads_back_as_itself(expiry: int) -> None:
    assert units.parse_expiry(units.format_expiry(expiry)) == expiry


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("unlimited", UNLIMITED),
        ("0", SERVER_DEFAULT),
        (0, SERVER_DEFAULT),
        ("server_default", SERVER_DEFAULT),
        ("default", SERVER_DEFAULT),
        ("10 GiB", 10 << 30),
        (1 << 30, 1 << 30),
    ],
)
def test_a_maximum_is_a_size_or_a_word(text: str | int, size: int) -> None:
    assert units.parse_max_size(text) == size


def test_a_text_that_is_no_maximum_is_told_all_three_forms() -> None:
    with pytest.raises(InvalidFormat, match="'lots': a maximum is a size, unlimited or server_def"):
        units.parse_max_size("lots")


@given(u64)
@example(SERVER_DEFAULT)
@example(UNLIMITED)
def test_a_printed_maximum_reads_back_as_itself(size: int) -> None:
    assert units.parse_max_size(units.format_max_size(size)) == size


@given(st.one_of(st.text(), st.from_regex(r"[0-9. ]{0,6}[a-zA-Z ]{0,6}", fullmatch=True)))
def test_any_other_text_is_refused_and_nothing_else_happens(text: str) -> None:
    for parse in PARSERS:
        with suppress(InvalidFormat):
            assert 0 <= parse(text) <= U64_MAX
