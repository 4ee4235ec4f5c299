"""The links of a shard to the other processes of its server: sockets and memory.

Two shards share one pair of connected Unix sockets of type STREAM. A stream carries descriptors as
well as bytes (`SCM_RIGHTS`), takes messages of any size, and lets one read return everything that
arrived meanwhile, unlike a socket that keeps message boundaries. `shard/envelopes.py` finds
the boundaries.

Each shard has one memory file, the arena of its buffers. It is empty until the memory pool of its
owner has set its size, so other shards map it when they receive its first buffer.
"""

import os
import socket
from collections.abc import Callable, Iterable

import msgspec


class Peer(msgspec.Struct, eq=False):
    """Another live shard. The holder of the value owns its descriptors."""

    shard: int
    #: Our end of the pair; the bus sets it to non-blocking.
    socket: socket.socket
    #: Descriptor of the memory file of the other shard.
    arena: int

    def close(self) -> None:
        self.socket.close()
        if self.arena >= 0:
            os.close(self.arena)
            self.arena = -1


class Links:
    """The number of a shard, its arena, and its peers.

    The connection to the supervisor calls `on_peer_lost` when a shard has died, and `on_peer` when
    a new process has replaced it; a replaced shard is always reported lost first. The bus sets
    both; until then they only update `peers`.
    """

    def __init__(self, shard: int, count: int, arena: int, peers: Iterable[Peer] = ()) -> None:
        assert 0 <= shard < count, "shards are numbered from 0"
        self.shard = shard
        self.count = count
        #: Descriptor of the memory file of this shard.
        self.arena = arena
        self.peers = {peer.shard: peer for peer in peers}
        self.on_peer_lost: Callable[[int], None] = self.remove
        self.on_peer: Callable[[Peer], None] = self.add

    def add(self, peer: Peer) -> None:
        assert peer.shard != self.shard, "a shard is not its own peer"
        self.remove(peer.shard)
        self.peers[peer.shard] = peer

    def remove(self, shard: int) -> None:
        """Close what belongs to a peer; does nothing if it was removed already."""
        peer = self.peers.pop(shard, None)
        if peer is not None:
            peer.close()

    def close(self) -> None:
        for shard in list(self.peers):
            self.remove(shard)
        if self.arena >= 0:
            os.close(self.arena)
            self.arena = -1
