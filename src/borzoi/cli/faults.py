"""Errors for scripts and people: an exit code, a message, a hint.

The table is in the documentation, and a test compares the two.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, Final

import click

from borzoi.model.errors import (
    AccessDenied,
    AlreadyExists,
    BorzoiError,
    CannotConnect,
    ConnectionLost,
    FeatureUnavailable,
    InvalidConfiguration,
    InvalidConnectionString,
    InvalidCredentials,
    InvalidRequest,
    NotFound,
    RequestTimeout,
    TokenExpired,
    Unauthenticated,
    Unauthorized,
)


class Exit(IntEnum):
    """What a command returns to the shell."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    LOGIN_REFUSED = 4
    NOT_PERMITTED = 5
    NOT_FOUND = 6
    ALREADY_EXISTS = 7
    INVALID = 8
    INTERRUPTED = 130


MEANINGS: Final = {
    Exit.OK: "the command did what it says",
    Exit.FAILED: "any other failure; the message says which",
    Exit.USAGE: "the command line is wrong: an unknown command, option or value",
    Exit.UNREACHABLE: "no server answers at the address, or it stopped answering",
    Exit.LOGIN_REFUSED: "the user name, password or token is wrong, missing or expired",
    Exit.NOT_PERMITTED: "the user lacks the permission",
    Exit.NOT_FOUND: "the stream, topic, partition, group, user or file does not exist",
    Exit.ALREADY_EXISTS: "the name is taken",
    Exit.INVALID: "the server or the client refuses the values",
    Exit.INTERRUPTED: "Ctrl-C",
}

#: The first class that fits decides: narrower ones stand above wider ones.
OUTCOMES: Final[tuple[tuple[type[BaseException], Exit, str], ...]] = (
    (CannotConnect, Exit.UNREACHABLE, "start one with `borzoi serve`, or name another address"),
    (RequestTimeout, Exit.UNREACHABLE, "the server may be busy; `borzoi ping` shows"),
    (ConnectionLost, Exit.UNREACHABLE, "try again; `borzoi ping` shows whether it is back"),
    (InvalidCredentials, Exit.LOGIN_REFUSED, "give -u and -p, or log in with `borzoi login`"),
    (Unauthenticated, Exit.LOGIN_REFUSED, "give -u and -p, or log in with `borzoi login`"),
    (TokenExpired, Exit.LOGIN_REFUSED, "log in again with `borzoi login`"),
    (Unauthorized, Exit.NOT_PERMITTED, "a user with manage_users can grant it"),
    (AccessDenied, Exit.LOGIN_REFUSED, "`borzoi me` shows the user of this login"),
    (NotFound, Exit.NOT_FOUND, "`borzoi stream list` and `topic list` show what there is"),
    (AlreadyExists, Exit.ALREADY_EXISTS, "choose another name, or delete the one there is"),
    (InvalidConnectionString, Exit.USAGE, ""),
    (InvalidConfiguration, Exit.INVALID, ""),
    (InvalidRequest, Exit.INVALID, ""),
    (FeatureUnavailable, Exit.INVALID, ""),
    (BorzoiError, Exit.FAILED, ""),
)


class CommandFailed(click.ClickException):
    """A message and a hint on stderr, and the exit code of the table."""

    def __init__(self, sentence: str, exit_code: Exit = Exit.FAILED, hint: str = "") -> None:
        super().__init__(sentence)
        # Click declares it for the class and reads it from the instance.
        self.exit_code = int(exit_code)  # type: ignore[misc]
        self.hint = hint

    def show(self, file: Any = None) -> None:
        click.echo(f"Error: {self.message}", err=True)
        if self.hint:
            click.echo(f"Hint: {self.hint}", err=True)


def failure_of(fault: BorzoiError) -> CommandFailed:
    """Return the failure for an error of the client or the server."""
    for kind, code, hint in OUTCOMES:
        if isinstance(fault, kind):
            return CommandFailed(str(fault) or fault.name, code, hint)
    raise AssertionError("BorzoiError is the last row")


@contextmanager
def reported() -> Iterator[None]:
    """Turn errors of borzoi into failures of the command."""
    try:
        yield
    except BorzoiError as fault:
        raise failure_of(fault) from fault
