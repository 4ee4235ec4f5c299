"""A socket that other shards may write to."""

import os
import socket

import pytest

from borzoi.shard.client_socket import ClientSocket


def test_a_duplicate_writes_to_the_same_client():
    ours, theirs = socket.socketpair()
    with theirs:
        lent = ClientSocket(ours)
        copy = socket.socket(fileno=lent.duplicate())
        ours.close()
        with copy:
            copy.send(b"answer")
        assert theirs.recv(100) == b"answer"
        assert theirs.recv(100) == b""
        with pytest.raises(OSError):
            lent.duplicate()


def test_only_what_was_lent_is_taken_back():
    ours, theirs = socket.socketpair()
    taken: list[ClientSocket] = []
    with ours, theirs:
        lent = ClientSocket(ours)
        lent.take_back()
        lent.on_taken_back = taken.append
        lent.take_back()
        assert taken == []
        lent.numbers[1] = 7
        lent.take_back()
        assert taken == [lent]
        assert os.fstat(ours.fileno()), "its connection keeps it"
