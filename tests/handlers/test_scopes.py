import pytest
from tests.support.embedded import EmbeddedClient, EmbeddedServer

from borzoi.handlers.call import Call
from borzoi.handlers.scopes import (
    EVERYWHERE,
    OWN,
    everywhere,
    partition_of,
    stream_of,
    topic_of,
    user_unless_own,
)
from borzoi.model.errors import PartitionNotFound, ResourceNotFound
from borzoi.protocol.commands.segments import DeleteSegments
from borzoi.protocol.commands.streams import CreateStream, GetStream
from borzoi.protocol.commands.system import Ping
from borzoi.protocol.commands.topics import CreateTopic, GetTopic
from borzoi.protocol.commands.users import CreateUser, GetUser


async def test_scopes_keep_the_identifiers_that_were_given(
    root: EmbeddedClient, server: EmbeddedServer
) -> None:
    await root.call(CreateStream("s"))
    await root.call(CreateTopic("s", "t", 1))
    await root.call(CreateUser("bob", "secret"))
    call = Call(root.session, server.services)
    assert everywhere(Ping(), call) == EVERYWHERE
    assert stream_of(GetStream("s"), call) == ("s", None)
    assert topic_of(GetTopic("s", 0), call) == ("s", 0)
    assert partition_of(DeleteSegments("s", "t", 0, 1), call) == ("s", "t")
    assert user_unless_own(GetUser("bob"), call) == EVERYWHERE
    assert user_unless_own(GetUser("iggy"), call) is OWN
    for scope, request, missing in (
        (partition_of, DeleteSegments("s", "t", 1, 1), PartitionNotFound),
        (user_unless_own, GetUser("eve"), ResourceNotFound),
    ):
        with pytest.raises(missing):
            scope(request, call)
