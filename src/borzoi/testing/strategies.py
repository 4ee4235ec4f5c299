"""Hypothesis strategies for everything that can be sent."""

from hypothesis import strategies as st

from borzoi.client.messages import NewMessage
from borzoi.model.limits import NAME_BYTES_MAX, U64_MAX, U128_MAX
from borzoi.records.user_headers import PlainValue


def names(max_size: int = 30) -> st.SearchStrategy[str]:
    """Names of streams, topics and groups: any text of 1 to 255 bytes that is not a number."""
    return (
        st.text(min_size=1, max_size=max_size)
        .filter(lambda name: len(name.encode()) <= NAME_BYTES_MAX)
        .filter(lambda name: not (name.isascii() and name.isdigit()))
    )


def payloads(max_size: int = 1000) -> st.SearchStrategy[bytes]:
    """Payloads, possibly empty."""
    return st.binary(max_size=max_size)


def header_values() -> st.SearchStrategy[PlainValue]:
    """Values of user headers, of every type that can be sent."""
    return st.one_of(
        st.booleans(),
        st.integers(-(2**127), U128_MAX),
        st.floats(allow_nan=False),
        st.binary(min_size=1, max_size=255),
        st.text(min_size=1, max_size=60),
    )


def headers(max_size: int = 5) -> st.SearchStrategy[dict[str, PlainValue]]:
    """User headers of one message."""
    keys = st.text(min_size=1, max_size=60)
    return st.dictionaries(keys, header_values(), max_size=max_size)


def messages(max_size: int = 1000) -> st.SearchStrategy[NewMessage]:
    """Messages to send, with and without headers and ids."""
    return st.builds(
        NewMessage,
        payloads(max_size),
        st.none() | headers(),
        st.just(0) | st.integers(1, U128_MAX),
    )


def offsets() -> st.SearchStrategy[int]:
    """Offsets that a partition can have."""
    return st.integers(0, U64_MAX)
