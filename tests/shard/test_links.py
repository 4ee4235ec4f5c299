"""The peers of a shard: who owns their descriptors, and what happens when one is replaced."""

import os
import socket

import pytest
from tests.support.descriptors import is_open

from borzoi.shard.links import Links, Peer


def peer(shard: int) -> tuple[Peer, socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return Peer(shard, ours, os.memfd_create("test", os.MFD_CLOEXEC)), theirs


def test_a_lost_peer_is_closed():
    lost, theirs = peer(1)
    arena = lost.arena
    links = Links(0, 2, os.memfd_create("test", os.MFD_CLOEXEC), [lost])
    links.on_peer_lost(1)
    assert links.peers == {}
    assert theirs.recv(1) == b""
    assert not is_open(arena)
    links.on_peer_lost(1)
    links.close()
    theirs.close()


def test_a_peer_that_was_started_again_takes_the_place_of_the_old_one():
    old, old_end = peer(1)
    new, new_end = peer(1)
    links = Links(0, 2, os.memfd_create("test", os.MFD_CLOEXEC), [old])
    links.on_peer(new)
    assert links.peers == {1: new}
    assert old_end.recv(1) == b""
    links.close()
    assert new_end.recv(1) == b""
    old_end.close()
    new_end.close()


def test_closing_the_links_closes_the_arena():
    arena = os.memfd_create("test", os.MFD_CLOEXEC)
    links = Links(1, 2, arena)
    links.close()
    assert not is_open(arena)
    links.close()


def test_a_shard_is_not_its_own_peer():
    own, theirs = peer(0)
    links = Links(0, 2, -1)
    with pytest.raises(AssertionError, match="own peer"):
        links.add(own)
    own.close()
    theirs.close()
