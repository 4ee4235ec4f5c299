"""A shard without data: it speaks with its supervisor and its peers, and writes down what it sees.

``SHARD_EVENTS`` names the folder for that; ``SHARD_<number>`` makes one of them misbehave.
"""

import asyncio
import contextlib
import os
import socket
import sys
from pathlib import Path

from borzoi.server.control import ShardControl, begun
from borzoi.server.control_messages import Begin
from borzoi.server.signals import let_through, while_serving
from borzoi.shard.links import Links, Peer


class Diary:
    """One file for each process, named after its shard and its number."""

    def __init__(self, shard: int) -> None:
        self._path = Path(os.environ["SHARD_EVENTS"]) / f"{shard}-{os.getpid()}"

    def note(self, event: str) -> None:
        with self._path.open("a") as file:
            file.write(event + "\n")


async def serve(begin: Begin, links: Links, control: ShardControl, diary: Diary) -> int:
    mischief = os.environ.get(f"SHARD_{begin.shard}", "")
    if mischief == "cannot start":
        return 1
    if mischief == "cannot start again" and not begin.first_start:
        return 1
    if mischief == "cannot start when told":
        diary.note("waits")
        while not (Path(os.environ["SHARD_EVENTS"]) / "fail").exists():
            await asyncio.sleep(0.01)
        return 1
    links.on_peer_lost = lambda shard: diary.note(f"lost {shard}")
    links.on_peer = lambda peer: meet(peer, diary)
    control.attach(links)
    for peer in links.peers.values():
        meet(peer, diary)
    when = "first" if begin.first_start else "again"
    diary.note(f"begin {when} {begin.settings['tcp']['address']}")
    if begin.shard == 0:
        control.ready({"tcp": ("127.0.0.1", 4242)})
        if await control.all_ready():
            diary.note("all ready")
    else:
        diary.note(f"bound {(await control.bound())['tcp']}")
        if mischief == "never ready":
            await asyncio.sleep(3600)
        control.ready({})
    await control.stopped()
    if mischief == "fails at its end":
        return 70
    diary.note("stopped")
    await control.drained()
    diary.note("drained")
    return 0


def meet(peer: Peer, diary: Diary) -> None:
    """Send our own number and note that of the peer: the two ends belong together."""
    peer.socket.setblocking(False)
    with contextlib.suppress(BrokenPipeError):  # it has ended already, which is no reason to end
        peer.socket.send(f"{os.getpid()}".encode())

    def heard() -> None:
        try:
            said = peer.socket.recv(64)
        except ConnectionResetError:
            said = b""
        asyncio.get_running_loop().remove_reader(peer.socket.fileno())
        if said:
            diary.note(f"met {peer.shard} {said.decode()}")

    asyncio.get_running_loop().add_reader(peer.socket.fileno(), heard)


async def main() -> int:
    sock = socket.socket(fileno=int(sys.argv[1]))
    begin, links = begun(sock)
    diary = Diary(begin.shard)
    control = ShardControl(sock, first_start=begin.first_start)
    while_serving(asyncio.get_running_loop(), control.ask_stop)
    let_through()
    return await serve(begin, links, control, diary)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
