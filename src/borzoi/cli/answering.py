"""The shapes that questions share: one call of a client, then its answer is printed."""

from collections.abc import Callable, Mapping, Sequence

from borzoi.cli.connecting import connected
from borzoi.cli.documents import found, record_of
from borzoi.cli.output import chosen, emit, emit_list
from borzoi.client import Client


def describe(fetch: Callable[[Client], object | None], missing: str, form: str) -> None:
    """Print one item; fail with `missing` if the server does not have it."""
    with connected() as client:
        item = found(fetch(client), missing)
    emit(record_of(item), chosen(form))


def show_list(
    fetch: Callable[[Client], Sequence[object]],
    columns: Mapping[str, str],
    form: str,
    list_mode: str,
) -> None:
    """Print a list; `columns` maps fields to their headings, for tables."""
    with connected() as client:
        items = fetch(client)
    emit_list([record_of(item) for item in items], columns, chosen(form, list_mode))
