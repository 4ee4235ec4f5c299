"""One field of all messages at once."""

import numpy as np
import pytest

from borzoi.records.columns import equal_column, gathered_column, scatter_column

WORD = np.dtype("<u8")


def test_messages_of_one_size_give_a_view_of_their_field() -> None:
    buffer = bytearray(30)
    column = equal_column(memoryview(buffer), 10, 1, WORD)
    column[:] = [1, 2, 3]
    assert [buffer[1], buffer[11], buffer[21]] == [1, 2, 3]


def test_messages_of_any_size_give_a_copy_of_their_field() -> None:
    buffer = bytearray(range(40))
    column = gathered_column(memoryview(buffer), np.array([0, 13, 30]), 2, np.dtype("u1"))
    assert column.tolist() == [2, 15, 32]
    column[:] = 0
    assert buffer[2] == 2


@pytest.mark.parametrize("values", [7, np.array([7, 7], WORD)])
def test_a_field_is_scattered_to_where_the_messages_start(values: int) -> None:
    buffer = bytearray(40)
    scatter_column(memoryview(buffer), np.array([1, 20]), 3, WORD, values)
    assert [position for position, byte in enumerate(buffer) if byte] == [4, 23]


def test_a_message_that_starts_too_late_has_no_field() -> None:
    starts = np.array([0, 33])
    with pytest.raises(IndexError):
        gathered_column(memoryview(bytes(40)), starts, 0, WORD)
