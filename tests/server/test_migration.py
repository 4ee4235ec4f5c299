"""Connections on their way to another shard: what goes along, and what may happen meanwhile."""

import asyncio
import socket
from pathlib import Path

import msgspec
from tests.support.shards import Shards, clients_of, running_shards
from tests.support.wire_client import WireClient

from borzoi.client import AsyncClient
from borzoi.handlers.sessions import Session, SessionRecord
from borzoi.model.namespace import Namespace
from borzoi.model.system import TransportKind
from borzoi.model.users import UserStatus
from borzoi.protocol.commands.system import GetMe, Ping
from borzoi.protocol.framing import encode_request
from borzoi.server.migration import Migration, Moved
from borzoi.shard.bus import Arrived

PLACE = Namespace(0, 0, 0)


def migration(shards: Shards, shard: int) -> Migration:
    return shards.servers[shard]._migration


async def session_of(shards: Shards, shard: int, client: AsyncClient) -> Session:
    session = shards.servers[shard]._services.sessions.get((await client.get_me()).client_id)
    assert session is not None
    return session


async def until(condition) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


async def test_half_a_request_goes_along_and_is_finished_on_the_other_shard(
    tmp_path: Path,
) -> None:
    async with running_shards(tmp_path / "data", 2) as shards:
        client = await asyncio.to_thread(WireClient, shards.controls[0].addresses["tcp"])
        await asyncio.to_thread(client.login)
        session = next(iter(shards.servers[0]._services.sessions))
        frame = encode_request(GetMe())
        listener = shards.servers[0]._listeners[0]
        client.send(encode_request(Ping()) + frame[:3])
        assert await asyncio.to_thread(client.receive) == (0, b"")
        await until(
            lambda: any(one.conversation.inside_frame for one in listener.connections)  # type: ignore[attr-defined]
        )
        assert migration(shards, 0).move(session, 1, PLACE)
        assert not migration(shards, 0).move(session, 1, PLACE), "it is not here any more"
        client.send(frame[3:])
        status, payload = await asyncio.to_thread(client.receive)
        assert status == 0
        assert int.from_bytes(payload[:4], "little") == session.client_id
        moved = shards.servers[1]._services.sessions.get(session.client_id)
        assert moved is not None
        assert (moved.user_id, moved.address, moved.migrated) == (0, session.address, True)
        client.close()


async def test_the_turns_of_balanced_sends_go_along(tmp_path: Path) -> None:
    async with running_shards(tmp_path / "data", 2) as shards, clients_of(shards) as clients:
        await clients[0].create_stream("s")
        await clients[0].create_topic("s/t", partitions=8)
        for _ in range(3):
            await clients[0].send_messages("s/t", ["x"])
        session = await session_of(shards, 0, clients[0])
        assert migration(shards, 0).move(session, 1, PLACE)
        await clients[0].ping()
        assert shards.servers[1]._partitions.turn_of(0, 0) == 3


async def test_what_may_not_move_stays(tmp_path: Path) -> None:
    async with running_shards(tmp_path / "data", 2) as shards, clients_of(shards) as clients:
        session = await session_of(shards, 0, clients[0])
        moves = migration(shards, 0)
        for name, value in (("joined", True), ("migrated", True), ("closing", True)):
            before = getattr(session, name)
            setattr(session, name, value)
            assert not moves.move(session, 1, PLACE), name
            setattr(session, name, before)
        session.user_id, before = None, session.user_id
        assert not moves.move(session, 1, PLACE), "nobody is logged in"
        session.user_id = before
        # The other shard is away.
        shards.controls[0].links.on_peer_lost(1)
        assert not moves.move(session, 1, PLACE)
        await clients[0].ping()
        await until(lambda: not shards.servers[1]._bus.is_there(0))
        shards.join(0, 1)


async def test_a_client_whose_user_was_deleted_on_the_way_is_not_taken(tmp_path: Path) -> None:
    async with running_shards(tmp_path / "data", 2) as shards:
        services = shards.servers[1]._services
        root = services.metadata.state.users[0]

        def arrives(**changed: object) -> bool:
            """Whether the connection of a session was taken."""
            record = SessionRecord(
                77, "127.0.0.1:7777", TransportKind.TCP, 0.0, 0, None, joined=False
            )
            record = msgspec.structs.replace(
                record, **{name: value for name, value in changed.items() if name != "birth"}
            )
            ours, theirs = socket.socketpair()
            moved = Moved(record, int(changed.get("birth", root.birth)), b"", (0, 0), 0)  # type: ignore[call-overload]
            body = msgspec.msgpack.encode(moved)
            migration(shards, 1)._arrived(Arrived(0, body, [theirs.detach()]))
            found = services.sessions.get(77)
            if found is not None:
                services.sessions.remove(found)
                found.hang_up()
            ours.close()
            return found is not None

        assert arrives()
        assert not arrives(user_id=9)
        assert not arrives(birth=12345)
        assert not arrives(token_hash="gone")
        root.status = UserStatus.INACTIVE
        assert not arrives()
        root.status = UserStatus.ACTIVE
