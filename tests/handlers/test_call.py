import pytest
from tests.support.embedded import EmbeddedServer

from borzoi.handlers.call import Call
from borzoi.model.errors import StateCorrupted, Unauthenticated
from borzoi.protocol.commands.streams import CreateStream, UpdateStream


async def test_a_call_knows_who_asks_and_what_time_it_is(server: EmbeddedServer) -> None:
    call = Call(server.root().session, server.services)
    assert call.user_id == 0
    assert call.now() > 1_700_000_000_000_000
    assert call.metadata is server.services.metadata
    with pytest.raises(Unauthenticated):
        _ = Call(server.connect().session, server.services).user_id


async def test_a_command_that_creates_nothing_is_no_creation(server: EmbeddedServer) -> None:
    client = server.root()
    call = Call(client.session, server.services, server.services.metadata.state.users[0])
    await call.create(CreateStream("orders"))
    with pytest.raises(StateCorrupted):
        await call.create(UpdateStream("orders", "other"))


async def test_a_session_whose_user_is_gone_changes_nothing(server: EmbeddedServer) -> None:
    call = Call(server.root().session, server.services)
    with pytest.raises(Unauthenticated):
        await call.submit(CreateStream("orders"))
