import pytest
from tests.support.embedded import EmbeddedServer

from borzoi.handlers.call import Call
from borzoi.model.errors import Unauthenticated


async def test_a_call_knows_who_asks_and_what_time_it_is(server: EmbeddedServer) -> None:
    call = Call(server.root().session, server.services)
    assert call.user_id == 0
    assert call.user is call.state.users[0]
    assert call.now() > 1_700_000_000_000_000
    assert call.metadata is server.services.metadata
    with pytest.raises(Unauthenticated):
        _ = Call(server.connect().session, server.services).user_id
