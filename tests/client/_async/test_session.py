"""Lost connections, late answers and strange servers: what a client does about each."""

import pytest
from tests.support.scripted_server import (
    HANG_UP,
    SILENCE,
    Asked,
    answered,
    hanging_up_once,
    ok,
    scripted,
)

from borzoi.client import AsyncClient
from borzoi.client._colours import async_sleep
from borzoi.model.errors import (
    CannotConnect,
    ClientClosed,
    Disconnected,
    InvalidVersion,
    RequestTimeout,
    StaleClient,
    Unauthenticated,
)
from borzoi.model.system import NodeRole, NodeStatus
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.system import ClusterMetadata, ClusterNode
from borzoi.protocol.framing import encode_response

QUIET = "?heartbeat_interval=0"


async def test_a_login_comes_first_and_the_cluster_is_asked_who_leads() -> None:
    with scripted() as server:
        async with AsyncClient(server.url + QUIET) as client:
            await client.ping()
        assert server.codes == [Code.LOGIN_USER, Code.GET_CLUSTER_METADATA, Code.PING]


async def test_an_answer_that_does_not_come_ends_the_call_in_time() -> None:
    with scripted(lambda asked: SILENCE if asked.code == Code.PING else ok(asked)) as server:
        async with AsyncClient(server.url + QUIET) as client:
            with pytest.raises(RequestTimeout, match=r"within 0\.0\d+ s") as caught:
                await client.ping(timeout=0.05)
            assert caught.value.code == 12001
            assert isinstance(caught.value, TimeoutError)
            assert not client.is_connected
            assert await client.get_streams() == ()
        assert len({asked.connection for asked in server.asked}) == 2


async def test_a_question_is_asked_again_when_the_connection_ends() -> None:
    with scripted(hanging_up_once(Code.GET_STREAMS)) as server:
        async with AsyncClient(server.url + QUIET) as client:
            assert await client.get_streams() == ()
        assert server.codes.count(Code.LOGIN_USER) == 2
        assert server.codes.count(Code.GET_STREAMS) == 2


async def test_what_may_have_been_done_is_not_done_twice() -> None:
    with scripted(
        lambda asked: HANG_UP if asked.code == Code.DELETE_STREAM else ok(asked)
    ) as server:
        async with AsyncClient(server.url + QUIET) as client:
            with pytest.raises(Disconnected):
                await client.delete_stream("s")
            await client.ping()
        assert server.codes.count(Code.DELETE_STREAM) == 1


@pytest.mark.parametrize("status", [30, 40])
async def test_a_status_that_ends_the_session_means_that_nothing_was_done(status: int) -> None:
    def refuse_once(asked: Asked) -> bytes:
        if asked.code == Code.DELETE_STREAM and asked.connection == 0:
            return encode_response(status)
        return ok(asked)

    with scripted(refuse_once) as server:
        async with AsyncClient(server.url + QUIET) as client:
            await client.delete_stream("s")
        assert server.codes.count(Code.DELETE_STREAM) == 2


async def test_a_server_that_always_says_so_is_believed_in_the_end() -> None:
    def refuse(asked: Asked) -> bytes:
        return encode_response(30) if asked.code == Code.PING else ok(asked)

    with scripted(refuse) as server:
        async with AsyncClient(server.url + QUIET) as client:
            with pytest.raises(StaleClient):
                await client.ping()


async def test_without_reconnection_the_first_fault_is_told() -> None:
    with scripted(
        lambda asked: encode_response(40) if asked.code == Code.PING else ok(asked)
    ) as server:
        host, port = server.address
        async with AsyncClient(f"borzoi://{host}:{port}{QUIET}") as client:
            with pytest.raises(Unauthenticated):
                await client.ping()
        assert server.codes == [Code.PING]


async def test_groups_are_joined_again_on_a_new_connection() -> None:
    with scripted(hanging_up_once(Code.PING)) as server:
        async with AsyncClient(server.url + QUIET) as client:
            await client.join_consumer_group("s/t", "g")
            await client.join_consumer_group("s/t", "h")
            await client.leave_consumer_group("s/t", "h")
            await client.ping()
        again = [asked.code for asked in server.asked if asked.connection == 1]
        assert again == [
            Code.LOGIN_USER,
            Code.JOIN_CONSUMER_GROUP,
            Code.GET_CLUSTER_METADATA,
            Code.PING,
        ]


async def test_the_node_that_leads_is_asked_instead() -> None:
    with scripted() as leader:

        def follow(asked: Asked) -> bytes:
            if asked.code == Code.GET_CLUSTER_METADATA:
                return answered(
                    ClusterMetadata(
                        "test", (node("a", own, False), node("b", leader.address, True))
                    )
                )
            return ok(asked)

        with scripted(follow) as follower:
            own = follower.address
            async with AsyncClient(follower.url + QUIET) as client:
                await client.ping()
            assert Code.PING not in follower.codes
            assert Code.PING in leader.codes


def node(name: str, address: tuple[str, int], leads: bool) -> ClusterNode:
    role = NodeRole.LEADER if leads else NodeRole.FOLLOWER
    return ClusterNode(name, address[0], address[1], 0, 0, 0, role, NodeStatus.HEALTHY)


async def test_two_nodes_that_name_each_other_are_not_followed_for_ever() -> None:
    addresses: list[tuple[str, int]] = []

    def script(asked: Asked) -> bytes:
        if asked.code == Code.GET_CLUSTER_METADATA:
            nodes = (
                node("a", ("127.0.0.1", 1), False),
                node("b", ("localhost", addresses[0][1]), True),
            )
            return answered(ClusterMetadata("test", nodes))
        return ok(asked)

    with scripted(script) as server:
        addresses.append(server.address)
        async with AsyncClient(server.url + QUIET) as client:
            await client.ping()
        assert len({asked.connection for asked in server.asked}) == 1


@pytest.mark.parametrize(
    "garbage",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x15\x03\x03\x00\x02\x02\x46\0\0",
        b"\1\0\0\0\1\0\0\0x",
    ],
)
async def test_something_that_speaks_another_protocol_is_recognised(garbage: bytes) -> None:
    with scripted(lambda _: garbage) as server:
        with pytest.raises(InvalidVersion, match="does not speak"):
            async with AsyncClient(server.url + QUIET):
                pass


async def test_an_answer_that_makes_no_sense_is_told() -> None:
    def nonsense(asked: Asked) -> bytes:
        return (
            encode_response(0, b"abc")
            if asked.code in (Code.GET_ME, Code.POLL_MESSAGES)
            else ok(asked)
        )

    with scripted(nonsense) as server:
        async with AsyncClient(server.url + QUIET) as client:
            with pytest.raises(InvalidVersion, match="GetMe"):
                await client.get_me()
            with pytest.raises(InvalidVersion, match="PollMessages"):
                await client.poll_messages("s/t")
            with pytest.raises(InvalidVersion, match="is empty"):
                await client.get_stats()


async def test_a_server_that_hangs_up_at_login_is_no_server() -> None:
    with scripted(lambda _: HANG_UP) as server:
        with pytest.raises(CannotConnect):
            async with AsyncClient(server.url + QUIET):
                pass


async def test_a_server_that_says_nothing_at_login_is_given_up_in_time() -> None:
    with scripted(lambda _: SILENCE) as server:
        with pytest.raises(CannotConnect):
            async with AsyncClient(server.url + QUIET, connect_timeout=0.05):
                pass


async def test_after_a_goodbye_questions_are_asked_again_and_the_rest_is_not() -> None:
    def leave_once(asked: Asked) -> bytes:
        if asked.code in (Code.GET_STREAMS, Code.DELETE_STREAM) and asked.connection < 2:
            return encode_response(8)
        return ok(asked)

    with scripted(leave_once) as server:
        async with AsyncClient(server.url + QUIET) as client:
            with pytest.raises(Disconnected):
                await client.delete_stream("s")
            assert await client.get_streams() == ()
        assert server.codes.count(Code.DELETE_STREAM) == 1
        assert server.codes.count(Code.GET_STREAMS) == 2


async def test_a_goodbye_is_heard_between_two_calls() -> None:
    with scripted() as server:
        async with AsyncClient(server.url + QUIET) as client:
            await client.ping()
            server.push(encode_response(8))
            while client.is_connected:
                await async_sleep(0)
            await client.delete_stream("s")
        assert {asked.connection for asked in server.asked} == {0, 1}


async def test_heartbeats_go_on_by_themselves() -> None:
    with scripted() as server:
        async with AsyncClient(f"{server.url}?heartbeat_interval=10ms") as client:
            while server.codes.count(Code.PING) < 3:
                await client.get_streams()


async def test_closing_twice_and_calling_afterwards() -> None:
    with scripted() as server:
        client = AsyncClient(server.url + QUIET)
        await client.connect()
        await client.connect()
        await client.close()
        await client.close()
        with pytest.raises(ClientClosed):
            await client.ping()
