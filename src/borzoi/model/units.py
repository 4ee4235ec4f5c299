"""Sizes and spans of time as people write them: ``1 GiB``, ``30 s``, ``1h 1m 1s``, ``unlimited``.

Sizes are bytes and spans are microseconds everywhere else; only the edges (configuration, command
line, JSON) know these texts.

==========  =======================================================================================
size        ``1048576``, ``100 KB``, ``1.5 GiB``: decimal or binary units, upper-case B
duration    ``30s``, ``1h 1m 1s``, ``7 days``, ``500ms``; ``0 none disabled unlimited`` are zero
expiry      a duration above zero; ``none unlimited never_expire`` never; ``server_default default``
max size    a size; ``unlimited``; ``0 server_default``
==========  =======================================================================================
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from borzoi.model.errors import InvalidFormat
from borzoi.model.limits import NEVER, SERVER_DEFAULT, U32_MAX, U64_MAX, UNLIMITED

#: A number of bytes.
ByteSize: TypeAlias = int
#: A number of microseconds.
Duration: TypeAlias = int

SECOND: Final[Duration] = 1_000_000
MINUTE: Final[Duration] = 60 * SECOND
HOUR: Final[Duration] = 60 * MINUTE
DAY: Final[Duration] = 24 * HOUR
WEEK: Final[Duration] = 7 * DAY

#: From the largest down: that is the order in which a size looks for the unit to be printed in.
BYTE_UNITS: Final[Mapping[str, ByteSize]] = MappingProxyType(
    {
        f"{prefix}{infix}B": base**power
        for power, prefix in reversed(list(enumerate("KMGTPE", start=1)))
        for infix, base in (("i", 1024), ("", 1000))
    }
    | {"B": 1}
)

#: The first word of each row is the one that is printed. A month is a twelfth of a mean year.
_DURATION_WORDS: Final = (
    (DAY * 1461 // 4, "years year yr y"),
    (DAY * 1461 // 48, "months month"),
    (WEEK, "weeks week w"),
    (DAY, "d days day"),
    (HOUR, "h hours hour hrs hr"),
    (MINUTE, "m minutes minute mins min"),
    (SECOND, "s seconds second secs sec"),
    (1_000, "ms millis msec"),
    (1, "us micros usec µs μs"),
)
DURATION_UNITS: Final[Mapping[str, Duration]] = MappingProxyType(
    {word: unit for unit, words in _DURATION_WORDS for word in words.split()}
)
_PRINTED_DURATIONS: Final = tuple(
    (unit, words.split()[0]) for unit, words in _DURATION_WORDS if unit <= DAY
)

ZERO_DURATION_WORDS: Final = frozenset({"0", "none", "disabled", "unlimited"})
NEVER_WORDS: Final = frozenset({"none", "unlimited", "never_expire"})
DEFAULT_WORDS: Final = frozenset({"server_default", "default"})

#: Expiries travel in seconds in places, as u32.
EXPIRY_MAX: Final[Duration] = U32_MAX * SECOND

_QUANTITY = re.compile(r"([0-9]{1,20})(?:\.([0-9]{1,18}))?\s*([A-Za-z]*)")
_DURATION_PART = re.compile(r"([0-9]{1,20})(?:\.([0-9]{1,18}))?\s*([a-zµμ]+)\s*")

_SIZES = "a size is a number of bytes or a number with B, KB, MB, GB, TB, KiB, MiB, GiB or TiB"
_DURATIONS = "a duration is numbers with us, ms, s, m, h, days or weeks (30s, 1h 1m 1s), or 0"
_EXPIRIES = "an expiry is a duration above zero, never_expire or server_default"
_MAX_SIZES = "a maximum is a size, unlimited or server_default"


def parse_bytes(value: str | int) -> ByteSize:
    """The size a text or a plain number stands for."""
    if isinstance(value, int):
        return _bounded(value, value, U64_MAX, _SIZES)
    found = _QUANTITY.fullmatch(value.strip())
    unit = BYTE_UNITS.get(found[3] or "B") if found else None
    if found is None or unit is None:
        raise _refused(value, _SIZES)
    return _bounded(value, _scaled(value, found, unit, _SIZES), U64_MAX, _SIZES)


def format_bytes(size: ByteSize) -> str:
    """The size in the largest unit that says it exactly with three decimals at most.

    >>> format_bytes(1 << 30), format_bytes(1103), format_bytes(972)
    ('1 GiB', '1.103 KB', '972 B')
    """
    name, unit = next(
        (name, unit)
        for name, unit in BYTE_UNITS.items()
        if unit == 1 or (size >= unit and size * 1000 % unit == 0)
    )
    whole, thousandths = divmod(size * 1000 // unit, 1000)
    decimals = f".{thousandths:03}".rstrip("0") if thousandths else ""
    return f"{whole}{decimals} {name}"


def format_bytes_roughly(size: ByteSize) -> str:
    """The size for a sentence: a decimal unit and two decimals.

    >>> format_bytes_roughly(1 << 30)
    '1.07 GB'
    """
    for name, unit in BYTE_UNITS.items():
        if "i" not in name and 1 < unit <= size:
            hundredths = (size * 100 + unit // 2) // unit
            return f"{hundredths // 100}.{hundredths % 100:02} {name}"
    return f"{size} B"


def parse_duration(value: str | int) -> Duration:
    """The microseconds of a span of time; a number without a unit can only be zero."""
    text = str(value).strip().lower()
    if text in ZERO_DURATION_WORDS:
        return 0
    duration, position = 0, 0
    while found := _DURATION_PART.match(text, position):
        if found[3] not in DURATION_UNITS:
            break
        duration += _scaled(value, found, DURATION_UNITS[found[3]], _DURATIONS)
        position = found.end()
    if position < len(text) or not text:
        raise _refused(value, _DURATIONS)
    return _bounded(value, duration, U64_MAX, _DURATIONS)


def format_duration(duration: Duration) -> str:
    """The span in days and below, without the units it has none of.

    >>> format_duration(3_661_000_000), format_duration(0)
    ('1h 1m 1s', '0s')
    """
    parts = []
    for unit, word in _PRINTED_DURATIONS:
        count, duration = divmod(duration, unit)
        if count:
            parts.append(f"{count}{word}")
    return " ".join(parts) or "0s"


def parse_expiry(value: str | int) -> Duration:
    """Microseconds to keep something, `NEVER`, or `SERVER_DEFAULT`."""
    text = str(value).strip().lower()
    if text in NEVER_WORDS:
        return NEVER
    if text in DEFAULT_WORDS:
        return SERVER_DEFAULT
    duration = parse_duration(value)
    # Zero is "the default" in one field of the wire and "never" in another: neither is guessed.
    if duration == 0:
        raise _refused(value, _EXPIRIES)
    return _bounded(value, duration, EXPIRY_MAX, _EXPIRIES)


def format_expiry(expiry: Duration) -> str:
    """The expiry as `parse_expiry` reads it."""
    if expiry == NEVER:
        return "never_expire"
    return "server_default" if expiry == SERVER_DEFAULT else format_duration(expiry)


def parse_max_size(value: str | int) -> ByteSize:
    """A bound in bytes, `UNLIMITED`, or `SERVER_DEFAULT`."""
    text = str(value).strip().lower()
    if text == "unlimited":
        return UNLIMITED
    if text == "0" or text in DEFAULT_WORDS:
        return SERVER_DEFAULT
    try:
        return parse_bytes(value)
    except InvalidFormat:
        raise _refused(value, _MAX_SIZES) from None


def format_max_size(size: ByteSize) -> str:
    """The bound as `parse_max_size` reads it."""
    if size == UNLIMITED:
        return "unlimited"
    return "server_default" if size == SERVER_DEFAULT else format_bytes(size)


def _scaled(value: str | int, found: re.Match[str], unit: int, allowed: str) -> int:
    decimals = found[2] or ""
    scale: int = 10 ** len(decimals)
    quantity, rest = divmod(int(found[1] + decimals) * unit, scale)
    if rest:
        raise _refused(value, f"{allowed}; this is not a whole number of its smallest unit")
    return quantity


def _bounded(value: str | int, quantity: int, most: int, allowed: str) -> int:
    if isinstance(value, bool) or not 0 <= quantity <= most:
        raise _refused(value, f"{allowed}, of at most {most}")
    return quantity


def _refused(value: str | int, allowed: str) -> InvalidFormat:
    return InvalidFormat(f"cannot read {value!r}: {allowed}")
