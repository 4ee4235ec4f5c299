"""Assertions that stay on in production (9.4): a stopped replica is better than a wrong one."""

from borzoi.model.errors import BorzoiError


class InvariantError(BorzoiError):
    """The replica found itself or its peers in a state the protocol rules out: fail-stop."""


def invariant(holds: bool, sentence: str) -> None:
    """Raise unless ``holds``; unlike ``assert`` it survives ``python -O``."""
    if not holds:
        raise InvariantError(sentence)
