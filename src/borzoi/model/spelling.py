"""Which word was probably meant."""

from collections.abc import Iterable


def nearest(word: str, known: Iterable[str], *, likeness: float) -> str | None:
    """The known word that is most like this one; None if none is as much like it as that."""
    # Imported here: only a mistake needs it, and a start makes none.
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, list(known), n=1, cutoff=likeness)), None)
