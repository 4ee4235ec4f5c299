"""Documents as people read them: tables that fit the terminal, numbers with their units.

A list is a table if it fits. If it does not, each item is a block of lines, so that no cell is cut
into pieces. A single thing is a block, followed by a table for each list inside it. A file or pipe
has no width to fit: an item stays on one line, where `grep` finds it.
"""

import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal

from borzoi.model.units import BYTE_UNITS, format_duration

Record = Mapping[str, Any]

#: Fields that hold microseconds since the epoch, bytes, microseconds, or percents, by their names.
TIMES: Final = frozenset({"created_at", "timestamp", "origin_timestamp", "expiry_at", "start_time"})
SIZES: Final = frozenset(
    {
        "size_bytes",
        "max_topic_size",
        "messages_size_bytes",
        "memory_usage",
        "total_memory",
        "available_memory",
        "read_bytes",
        "written_bytes",
        "free_disk_space",
        "total_disk_space",
    }
)
SPANS: Final = frozenset({"message_expiry", "run_time"})
PERCENTS: Final = frozenset({"cpu_usage", "total_cpu_usage"})
U64_MAX: Final = 2**64 - 1
#: Wide enough for anything; a console needs a number.
UNBOUNDED: Final = 10_000
#: A cell of this width or more may be wrapped between its words; a size or a name may not.
WRAPPED_WIDTH_MIN: Final = 16
COLUMN_GAP: Final = 2


def print_list(records: Sequence[Record], columns: Mapping[str, str]) -> None:
    """Print a list; `columns` maps fields to their headings."""
    print_table(
        [[with_units(field, one[field]) for field in columns] for one in records],
        list(columns.values()),
    )


def print_record(record: Record) -> None:
    """Print one thing: its fields, then a table for each list of things inside it."""
    lists = {field: value for field, value in record.items() if _is_list_of_records(value)}
    block = [
        (_words(field), with_units(field, value))
        for field, value in record.items()
        if field not in lists
    ]
    console = _console()
    console.print(_block(block))
    for field, value in lists.items():
        console.print(f"\n{_words(field)}")
        print_list(value, {name: _words(name) for name in value[0]})


def print_table(rows: Sequence[Sequence[str]], headings: Sequence[str]) -> None:
    """Print a table if it fits the terminal, and a block for each row if it does not."""
    console = _console()
    columns = list(zip(headings, *rows, strict=True))
    widths = fitted(columns, console.width - COLUMN_GAP * (len(columns) - 1))
    if widths is not None:
        console.print(_table(rows, headings, widths))
        return
    for number, row in enumerate(rows):
        if number:
            console.print()
        console.print(_block(zip(headings, row, strict=True)))


def with_units(field: str, value: Any) -> str:
    """A field as people read it in a table."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return text_of(field, value)
    if field in TIMES and value:
        return datetime.fromtimestamp(value / 1e6).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    if field in SIZES and value != U64_MAX:
        return size_text(int(value))
    if field in SPANS and value != U64_MAX:
        return format_duration(int(value))
    if field in PERCENTS:
        return f"{value:.1f} %"
    return text_of(field, value)


def size_text(size: int) -> str:
    """A size of three digits: ``1.07 GB``, ``258 KB``."""
    for name, unit in BYTE_UNITS.items():
        if "i" not in name and 1 < unit <= size:
            digits = 3 - len(str(size // unit))
            return f"{size / unit:.{digits}f} {name}"
    return f"{size} B"


def text_of(field: str, value: Any) -> str:
    """A field as text, exact: numbers as they are, words where a number stands for one."""
    if value is None:
        return "–"
    if field in TIMES and isinstance(value, int):
        return "never" if value == 0 else when(value)
    if field in SIZES and value == U64_MAX:
        return "unlimited"
    if field in SPANS and value == U64_MAX:
        return "never"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return _mapping_text(value)
    if isinstance(value, list | tuple):
        return ", ".join(text_of("", one) for one in value) or "–"
    return str(value)


def when(microseconds: int) -> str:
    """Local time, to the microsecond."""
    return datetime.fromtimestamp(microseconds / 1e6).astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")


def _mapping_text(value: Record) -> str:
    """``a=1, b=2``; of flags only those that are set, because permissions have ten of them."""
    if value and all(isinstance(one, bool) for one in value.values()):
        return ", ".join(_words(name) for name, is_set in value.items() if is_set) or "none"
    return ", ".join(f"{name}={text_of(str(name), one)}" for name, one in value.items()) or "–"


def _is_list_of_records(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)


def _words(field: object) -> str:
    return str(field).replace("_", " ")


def _console() -> Any:
    # Here and below: `--help` must not wait for rich.
    from rich.console import Console

    return Console(file=sys.stdout, markup=False, highlight=False, width=_width())


def _width() -> int:
    if "COLUMNS" in os.environ or sys.stdout.isatty():
        return shutil.get_terminal_size().columns
    return UNBOUNDED


def fitted(columns: Sequence[Sequence[str]], room: int) -> list[int] | None:
    """The widths of columns, the widest ones narrowed until all fit; None if they cannot."""
    widths = [_width_of(column) for column in columns]
    least = [_least_width(column) for column in columns]
    while sum(widths) > room:
        number = max(range(len(widths)), key=lambda one: widths[one] - least[one])
        if widths[number] == least[number]:
            return None
        widths[number] -= 1
    return widths


def _width_of(cells: Iterable[str]) -> int:
    from rich.cells import cell_len

    return max((cell_len(cell) for cell in cells), default=0)


def _least_width(column: Sequence[str]) -> int:
    """How narrow a column may be: headings and longer texts wrap between words, values do not."""
    heading, *cells = column
    kept = [cell for cell in cells if _width_of([cell]) < WRAPPED_WIDTH_MIN]
    words = [word for cell in (heading, *cells) if cell not in kept for word in cell.split()]
    return max(_width_of(kept), _width_of(words))


def _table(rows: Sequence[Sequence[str]], headings: Sequence[str], widths: Sequence[int]) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for number, heading in enumerate(headings):
        is_numeric = bool(rows) and all(row[number].isdecimal() for row in rows)
        justify: Literal["left", "right"] = "right" if is_numeric else "left"
        table.add_column(heading, justify=justify, width=widths[number], overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _block(pairs: Iterable[tuple[str, str]]) -> Any:
    """Names and values in two columns; long values are folded."""
    from rich.table import Table

    grid = Table.grid(padding=(0, COLUMN_GAP, 0, 0))
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    for name, value in pairs:
        grid.add_row(name, value)
    return grid
