"""Answers that the owner of a partition sends to clients of other shards.

A send to another shard waits for two switches between processes: until the owner has the batch, and
until the shard of the client has the reply. The client need not wait for the second one. Its shard
lends the socket to the owner, once, and the owner writes the answer to it when the batch is stored.
Then it replies to the client's shard, which goes on with the connection.

Nobody else writes to the socket meanwhile: a connection has one request at a time, which begins
when all earlier answers have left. An owner that cannot write says so, and the client's shard
answers.

When an owner dies, its clients must not get a second answer, which they would take for that of
their next request. So the owner sets a byte in front of the batch, in memory that both shards see,
before it writes. If the byte is set the answer may have left, and the connection ends.
"""

import logging
import socket
from collections import OrderedDict
from typing import Final

import msgspec

from borzoi.protocol.framing import DONE
from borzoi.shard.bus import Arrived, Bus, Letter
from borzoi.shard.client_socket import ClientSocket
from borzoi.shard.envelopes import Subject

log = logging.getLogger(__name__)

#: The number of no client.
NOBODY: Final = 0
#: The byte in front of a batch.
NOT_ANSWERED: Final = 0
MAY_BE_ANSWERED: Final = 1

_ENCODER: Final = msgspec.msgpack.Encoder()
_NUMBER: Final = msgspec.msgpack.Decoder(int)


class Answering:
    """The sockets of clients that this shard and its peers lend each other, at most `clients_max`
    to a peer. When there is no room, those in use stay: with more clients than that, some are
    answered by their own shard, or all would be lent again and again."""

    def __init__(self, bus: Bus, clients_max: int) -> None:
        self._bus = bus
        self._clients_max = clients_max
        self._numbers = NOBODY
        #: What each peer has of this shard, by number.
        self._lent: dict[int, OrderedDict[int, ClientSocket]] = {}
        #: What this shard has of its peers, by their shard and number.
        self._borrowed: dict[tuple[int, int], socket.socket] = {}
        bus.answer(Subject.CLIENT, self._client_lent)
        bus.answer(Subject.CLIENT_GONE, self._client_gone)

    def __len__(self) -> int:
        """How many sockets of other shards are open here."""
        return len(self._borrowed)

    # Clients of this shard.

    def number_of(self, owner: int, client: ClientSocket) -> int:
        """Return the number by which the owner knows the client, which it is lent to if it is new
        there; `NOBODY` if it cannot be lent."""
        number = client.numbers.get(owner)
        if number is None:
            return self._lend(owner, client)
        client.is_used = True
        return number

    def _lend(self, owner: int, client: ClientSocket) -> int:
        lent = self._lent.setdefault(owner, OrderedDict())
        if not self._bus.is_there(owner) or not self._makes_room(owner, lent):
            return NOBODY
        try:
            descriptor = client.duplicate()
        except OSError:
            return NOBODY
        # Never used again: a process that replaces the owner must not take it for another client.
        self._numbers = number = self._numbers + 1
        lent[number], client.numbers[owner] = client, number
        client.on_taken_back = self._taken_back
        self._bus.tell(owner, Subject.CLIENT, Letter(_ENCODER.encode(number), [descriptor]))
        return number

    def _makes_room(self, owner: int, lent: OrderedDict[int, ClientSocket]) -> bool:
        """Whether another one may be lent; the next one that is not in use makes room."""
        if len(lent) < self._clients_max:
            return True
        number, client = next(iter(lent.items()))
        if client.is_used:
            client.is_used = False
            lent.move_to_end(number)
            return False
        self._take_back(owner, number)
        return True

    def _taken_back(self, client: ClientSocket) -> None:
        for owner, number in list(client.numbers.items()):
            self._take_back(owner, number)

    def _take_back(self, owner: int, number: int) -> None:
        client = self._lent[owner].pop(number)
        del client.numbers[owner]
        self._bus.tell(owner, Subject.CLIENT_GONE, Letter(_ENCODER.encode(number)))

    # Clients of other shards.

    def answer(self, peer: int, number: int, mark: memoryview) -> bool:
        """Tell a client of a peer that its request is done; return whether that is so. `mark` is
        the byte in front of its batch."""
        client = self._borrowed.get((peer, number))
        if client is None:
            return False
        mark[0] = MAY_BE_ANSWERED
        try:
            sent = client.send(DONE)
        except OSError:  # it reads nothing, or is gone
            mark[0] = NOT_ANSWERED
            return False
        if sent < len(DONE):
            log.warning("a client of shard %d got a part of an answer", peer)
            client.shutdown(socket.SHUT_RDWR)
        return True

    def _client_lent(self, told: Arrived) -> Letter:
        number = _NUMBER.decode(told.body)
        self._borrowed[told.shard, number] = socket.socket(fileno=told.descriptors[0])
        return Letter()

    def _client_gone(self, told: Arrived) -> Letter:
        client = self._borrowed.pop((told.shard, _NUMBER.decode(told.body)), None)
        if client is not None:
            client.close()
        return Letter()

    # The end.

    def forget_peer(self, shard: int) -> None:
        """A peer has died: close its clients, and lend it those of this shard again."""
        for client in self._lent.pop(shard, {}).values():
            del client.numbers[shard]
        for key in [key for key in self._borrowed if key[0] == shard]:
            self._borrowed.pop(key).close()

    def close(self) -> None:
        for client in self._borrowed.values():
            client.close()
        self._borrowed.clear()
