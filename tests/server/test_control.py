import asyncio
import os
import socket
from collections.abc import AsyncIterator

import msgspec
import pytest
from tests.server.test_control_messages import ADDRESSES, BEGIN

from borzoi.server import control_messages as messages
from borzoi.server.control import ShardControl, SupervisorGone, begun
from borzoi.shard.links import Links, Peer


class Supervisor:
    """The other end."""

    def __init__(self) -> None:
        self.socket, self.shard_socket = messages.control_pair()

    def tell(self, message: messages.ToShard, *descriptors: int) -> None:
        messages.send(self.socket, messages.encode(message), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)

    def join(self, shard: int) -> socket.socket:
        """A peer joins; its end of the connection."""
        near, far = socket.socketpair()
        self.tell(messages.PeerJoined(shard), near.detach(), os.memfd_create(f"arena-{shard}"))
        return far

    def told(self) -> object:
        return messages.decode_to_supervisor(messages.receive(self.socket)[0])

    def close(self) -> None:
        self.socket.close()
        self.shard_socket.close()


@pytest.fixture
def supervisor():
    one = Supervisor()
    yield one
    one.close()


@pytest.fixture
async def control(supervisor: Supervisor) -> AsyncIterator[ShardControl]:
    one = ShardControl(supervisor.shard_socket, first_start=True)
    yield one
    one.close()


def test_a_process_learns_what_it_is_for_and_gets_its_peers(supervisor: Supervisor) -> None:
    supervisor.tell(BEGIN, os.memfd_create("arena"))
    with supervisor.join(0), supervisor.join(2) as far:
        begin, links = begun(supervisor.shard_socket)
        assert begin == BEGIN
        assert (links.shard, links.count, sorted(links.peers)) == (1, 3, [0, 2])
        links.peers[2].socket.send(b"x")
        assert far.recv(1) == b"x"
        os.ftruncate(links.arena, 4096)
        links.close()


def test_a_peer_that_dies_at_once_is_no_peer(supervisor: Supervisor) -> None:
    supervisor.tell(msgspec.structs.replace(BEGIN, peers=3), os.memfd_create("arena"))
    with supervisor.join(0), supervisor.join(2):
        supervisor.tell(messages.PeerLost(0))
        _, links = begun(supervisor.shard_socket)
        assert list(links.peers) == [2]
        links.close()


def test_a_process_without_its_supervisor_does_not_serve(supervisor: Supervisor) -> None:
    supervisor.socket.close()
    with pytest.raises(SupervisorGone):
        begun(supervisor.shard_socket)


def test_other_messages_come_later(supervisor: Supervisor) -> None:
    supervisor.tell(BEGIN, os.memfd_create("arena"))
    supervisor.tell(messages.Stop())
    with pytest.raises(AssertionError, match="before all peers"):
        begun(supervisor.shard_socket)


async def test_a_start_goes_step_by_step(supervisor: Supervisor, control: ShardControl) -> None:
    assert control.first_start
    supervisor.tell(messages.AddressesBound(ADDRESSES))
    assert await control.bound() == ADDRESSES
    control.ready(ADDRESSES)
    assert supervisor.told() == messages.Ready(ADDRESSES)
    waiting = asyncio.create_task(control.all_ready())
    await asyncio.sleep(0)
    assert not waiting.done()
    supervisor.tell(messages.AllReady())
    assert await waiting
    assert await control.all_ready()


async def test_a_stop_waits_for_everybody(supervisor: Supervisor, control: ShardControl) -> None:
    control.ask_stop()
    assert supervisor.told() == messages.StopAsked()
    waiting = asyncio.create_task(control.all_ready())
    supervisor.tell(messages.Stop())
    await control.stopped()
    assert not await waiting
    draining = asyncio.create_task(control.drained())
    await asyncio.sleep(0)
    assert supervisor.told() == messages.Drained()
    assert not draining.done()
    supervisor.tell(messages.Close())
    await draining


async def test_links_are_told_of_peers_also_of_those_that_came_before(
    supervisor: Supervisor, control: ShardControl
) -> None:
    changes: list[object] = []
    links = Links(1, 3, os.memfd_create("arena"))
    links.on_peer_lost = changes.append

    def met(peer: Peer) -> None:
        changes.append(peer)
        peer.close()

    links.on_peer = met
    with supervisor.join(0):
        supervisor.tell(messages.AddressesBound({}))
        await control.bound()
        control.attach(links)
        (lost, peer) = changes
        assert lost == 0
        assert isinstance(peer, Peer)
        supervisor.tell(messages.PeerLost(2))
        supervisor.tell(messages.AllReady())
        await control.all_ready()
        assert changes[2:] == [2]
    links.close()


async def test_a_shard_stops_when_its_supervisor_is_gone(
    supervisor: Supervisor, control: ShardControl
) -> None:
    supervisor.socket.close()
    await control.stopped()
    assert not await control.all_ready()
    await control.drained()
    control.ask_stop()


async def test_unclaimed_peers_are_closed_with_the_connection(
    supervisor: Supervisor,
) -> None:
    control = ShardControl(supervisor.shard_socket, first_start=False)
    with supervisor.join(0) as far:
        supervisor.tell(messages.AddressesBound({}))
        await control.bound()
        control.close()
        assert far.recv(1) == b""


async def test_a_shard_begins_once(supervisor: Supervisor, control: ShardControl) -> None:
    faults: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: faults.append(context["exception"]))
    supervisor.tell(BEGIN, os.memfd_create("arena"))
    supervisor.tell(messages.AddressesBound({}))
    await control.bound()
    assert "begins once" in str(faults[0])
