"""What a status means for the program that gets it: the cause, and what to do about it."""

from borzoi.model.errors import BorzoiError
from borzoi.protocol.errors import error_of, row_of


def error_answered(status: int, request: str) -> BorzoiError:
    """The exception for a request that the server answered with this status."""
    row = row_of(status)
    return error_of(status, f"{request}: {row.sentence.lower()}")
