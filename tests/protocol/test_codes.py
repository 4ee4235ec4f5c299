"""The numbers of the commands are part of the contract."""

from borzoi.protocol.codes import Code

NUMBERS = {
    *(1, 10, 11, 12, 20, 21, 22),
    *(31, 32, 33, 34, 35, 36, 37, 38, 39),
    *(41, 42, 43, 44),
    *(100, 101, 102, 120, 121, 122),
    *(200, 201, 202, 203, 204, 205),
    *(300, 301, 302, 303, 304, 305),
    *(402, 403, 503),
    *(600, 601, 602, 603, 604, 605),
}


def test_there_are_47_commands_with_the_published_numbers():
    assert len(Code) == 47
    assert set(map(int, Code)) == NUMBERS
