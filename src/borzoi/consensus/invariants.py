"""Assertions that stay on in production (I1): a stopped replica is better than a wrong one."""

from typing import TypeVar

from borzoi.model.errors import BorzoiError

T = TypeVar("T")


class InvariantError(BorzoiError):
    """The replica found itself or its peers in a state the protocol rules out: fail-stop."""


def invariant(holds: bool, sentence: str) -> None:
    """Raise unless ``holds``; unlike ``assert`` it survives ``python -O``."""
    if not holds:
        raise InvariantError(sentence)


def present(value: T | None, sentence: str) -> T:
    """The value, which is never None here."""
    if value is None:
        raise InvariantError(sentence)
    return value
