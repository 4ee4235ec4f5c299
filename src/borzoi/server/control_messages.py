"""The messages between a supervisor and its shards.

::

    supervisor                      shard
       │  Begin, PeerJoined …         │   settings, memory file, a socket to every other shard
       │ ───────────────────────────▶ │
       │                       Ready  │   its listeners accept; shard 0 says where
       │ ◀─────────────────────────── │
       │  AddressesBound              │   to the others, which listen there as well
       │ ───────────────────────────▶ │
       │  AllReady                    │   to shard 0, which prints the banner
       │ ───────────────────────────▶ │
       ⋮  PeerLost, PeerJoined        ⋮   while another shard is replaced
       │  Stop                        │   no new connections, finish what runs
       │ ───────────────────────────▶ │
       │                     Drained  │   nothing of it is pending anywhere
       │ ◀─────────────────────────── │
       │  Close                       │   no shard needs its partitions
       │ ───────────────────────────▶ │

Each message is one packet, MessagePack with the name of its class, and may carry descriptors. The
other side is our own code of the same version, so a message that is not understood is a bug.
"""

import array
import socket
from collections.abc import Sequence
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from borzoi.model.value import Value
from borzoi.server.overrides import Override
from borzoi.server.placement import Seat

Decoded = TypeVar("Decoded")
Addresses: TypeAlias = dict[str, tuple[str, int]]

#: Larger than any realistic settings; the kernel refuses to send more.
MESSAGE_BYTES_MAX: Final = 256 * 1024
DESCRIPTORS_MAX: Final = 2


class Message(Value, tag=True, array_like=True):
    """One packet."""


class Begin(Message):
    """The first message to a shard. Carries the descriptor of its memory file."""

    #: Of the supervisor, and so of the other shards.
    version: str
    shard: int
    count: int
    #: The process of the supervisor.
    supervisor: int
    #: How many PeerJoined follow at once.
    peers: int
    seat: Seat
    #: As in a file, secrets included: a shard that starts later must not see a file that was
    #: changed meanwhile.
    settings: dict[str, Any]
    source: str
    overrides: tuple[Override, ...]
    warnings: tuple[str, ...]
    default_credentials: bool
    follower: bool
    #: False for a shard that replaces one that died.
    first_start: bool


class PeerJoined(Message):
    """Another shard has been started. Carries a socket to it, and its memory file."""

    shard: int


class PeerLost(Message):
    """Another shard has died."""

    shard: int


class AddressesBound(Message):
    """Where shard 0 listens, by section of the settings."""

    addresses: Addresses


class AllReady(Message):
    """Every shard is ready."""


class Stop(Message):
    """Refuse new connections and finish what runs."""


class Close(Message):
    """Every shard has drained: save, sync and end."""


class Ready(Message):
    """Every listener of the shard accepts, at these addresses."""

    addresses: Addresses


class StopAsked(Message):
    """A signal to the shard asks the server to stop."""


class Drained(Message):
    """The shard has nothing pending, with itself or with others."""


ToShard: TypeAlias = Begin | PeerJoined | PeerLost | AddressesBound | AllReady | Stop | Close
ToSupervisor: TypeAlias = Ready | StopAsked | Drained

_encode = msgspec.msgpack.Encoder().encode
_to_shard: msgspec.msgpack.Decoder[ToShard] = msgspec.msgpack.Decoder(ToShard)
_to_supervisor: msgspec.msgpack.Decoder[ToSupervisor] = msgspec.msgpack.Decoder(ToSupervisor)


def encode(message: ToShard | ToSupervisor) -> bytes:
    return _encode(message)


def decode_to_shard(packet: bytes) -> ToShard:
    return _decoded(_to_shard, packet)


def decode_to_supervisor(packet: bytes) -> ToSupervisor:
    return _decoded(_to_supervisor, packet)


def _decoded(decoder: msgspec.msgpack.Decoder[Decoded], packet: bytes) -> Decoded:
    try:
        return decoder.decode(packet)
    except UnicodeDecodeError as fault:
        # The one fault of a packet that msgspec reports as another kind of error.
        raise msgspec.DecodeError(str(fault)) from fault


def control_pair() -> tuple[socket.socket, socket.socket]:
    """Return the two ends of a connection that keeps message boundaries."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(sock: socket.socket, packet: bytes, descriptors: Sequence[int] = ()) -> None:
    """Send a packet; the descriptors are duplicated, the caller keeps its own."""
    if descriptors:
        socket.send_fds(sock, [packet], list(descriptors))
    else:
        sock.send(packet)


def receive(sock: socket.socket, *, wait: bool = True) -> tuple[bytes, list[int]]:
    """Receive the next packet and its descriptors; an empty packet is the end.

    Without `wait` BlockingIOError says that there is none.
    """
    descriptors = array.array("i")
    # Not `socket.recv_fds`: Python 3.11 does not pass its flags on, and descriptors would
    # leak into every program that is started later.
    packet, ancillary, _, _ = sock.recvmsg(
        MESSAGE_BYTES_MAX,
        socket.CMSG_SPACE(DESCRIPTORS_MAX * descriptors.itemsize),
        socket.MSG_CMSG_CLOEXEC | (0 if wait else socket.MSG_DONTWAIT),
    )
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(content)
    return packet, descriptors.tolist()
