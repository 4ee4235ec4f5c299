"""What every tool does at a terminal: errors as a sentence, progress as a bar."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Final, ParamSpec

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as ProgressBar

from borzoi.model.errors import BorzoiError
from borzoi.server.data_directory import keep_private

#: Exit statuses: something was found or left undone; the tool could not work.
FOUND: Final = 1
COULD_NOT: Final = 2

Parameters = ParamSpec("Parameters")


def report_errors(command: Callable[Parameters, None]) -> Callable[Parameters, None]:
    """What goes wrong is one sentence and an exit status, never a traceback."""

    @wraps(command)
    def wrapped(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        keep_private()
        try:
            command(*args, **kwargs)
        except BorzoiError as fault:
            click.echo(f"error: {fault}", err=True)
            sys.exit(COULD_NOT)
        except BrokenPipeError:
            # The reader has seen enough; what is left in our buffer has nowhere to go.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except OSError as fault:
            where = f"{fault.filename}: " if fault.filename else ""
            click.echo(f"error: {where}{fault.strerror or fault}", err=True)
            sys.exit(COULD_NOT)

    return wrapped


@contextmanager
def progress_bar(what: str, total: int | None) -> Iterator[Callable[..., None]]:
    """A progress bar on the terminal; nothing at all when there is none."""
    console = Console(stderr=True)
    columns = [TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()]
    if total is not None:
        columns.insert(2, DownloadColumn())
    with ProgressBar(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(what, total=total)

        def advance(by: int, new_total: int | None = None, description: str = what) -> None:
            bar.update(task, advance=by, description=description)
            if new_total is not None:
                bar.update(task, total=new_total)

        yield advance
