"""A user that may read one topic and nothing else, and a token in place of its password.

The published Python client has no calls for users and tokens, so an administrator's part is done
with borzoi's own requests over a plain socket; the user's part is done with the published client.
"""

import asyncio
import os
import sys
from typing import Any

from apache_iggy import IggyClient, PollingStrategy, SendMessage

from borzoi.model.users import Permissions, StreamPermissions, TopicPermissions, UserStatus
from borzoi.protocol.buffers import Reader
from borzoi.protocol.commands.streams import CreateStream, GetStream
from borzoi.protocol.commands.tokens import CreatePersonalAccessToken, DeletePersonalAccessToken
from borzoi.protocol.commands.topics import CreateTopic, GetTopic
from borzoi.protocol.commands.users import CreateUser, DeleteUser, GetUser, LoginUser
from borzoi.protocol.contract import Request
from borzoi.protocol.errors import error_of
from borzoi.protocol.framing import RESPONSE_PREFIX, encode_request

STREAM, TOPIC = "users-and-tokens", "events"
USER, PASSWORD = "reader", "read-only"
DASHBOARD = "for-the-dashboard"


class Session:
    """A connection that sends a request and waits for its answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def of(cls, address: str, username: str, password: str) -> "Session":
        host, _, port = address.rpartition(":")
        session = cls(*await asyncio.open_connection(host, int(port)))
        await session.ask(LoginUser(username, password))
        return session

    async def ask(self, request: Request) -> Any:
        """The answer, None for an empty one; what is refused raises the error of its status."""
        self._writer.write(encode_request(request))
        status, length = RESPONSE_PREFIX.unpack(
            await self._reader.readexactly(RESPONSE_PREFIX.size)
        )
        payload = await self._reader.readexactly(length)
        if status:
            raise error_of(status)
        return request.RESPONSE.decode(Reader(payload)) if request.RESPONSE and payload else None

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


async def prepare(root: Session) -> None:
    """Create a topic, and a user that may read it. Permissions name streams and topics by id."""
    if await root.ask(GetStream(STREAM)) is None:
        await root.ask(CreateStream(STREAM))
        await root.ask(CreateTopic(STREAM, TOPIC, partitions_count=1))
    stream = await root.ask(GetStream(STREAM))
    topic = await root.ask(GetTopic(STREAM, TOPIC))
    may_read = TopicPermissions(read_topic=True, poll_messages=True)
    permissions = Permissions(streams={stream.id: StreamPermissions(topics={topic.id: may_read})})
    if await root.ask(GetUser(USER)) is not None:
        await root.ask(DeleteUser(USER))
    await root.ask(CreateUser(USER, PASSWORD, UserStatus.ACTIVE, permissions))


async def main(address: str = "127.0.0.1:8090") -> None:
    root = await Session.of(address, "iggy", "iggy")
    await prepare(root)
    owner = IggyClient.from_connection_string(f"iggy://iggy:iggy@{address}")
    await owner.connect()
    await owner.send_messages(STREAM, TOPIC, 0, [SendMessage("for your eyes only")])

    # The text of a token is shown once; the server keeps only its hash.
    user = await Session.of(address, USER, PASSWORD)
    token = await user.ask(CreatePersonalAccessToken(DASHBOARD, expiry=3600 * 1_000_000))
    print(f"{USER} has a token that is good for an hour: {token.token[:8]}…")

    # A token in the place of a user name and password.
    reader = IggyClient.from_connection_string(f"iggy://{token.token}@{address}")
    await reader.connect()
    (message,) = await reader.poll_messages(STREAM, TOPIC, 0, PollingStrategy.Last(), 1, False)
    print(f"{USER} reads: {message.payload().decode()}")
    try:
        await reader.send_messages(STREAM, TOPIC, 0, [SendMessage("may I?")])
    except RuntimeError as refusal:
        print(f"{USER} may not send: {refusal}")

    # Deleting the token ends what was opened with it.
    await user.ask(DeletePersonalAccessToken(DASHBOARD))
    late = IggyClient.from_connection_string(f"iggy://{token.token}@{address}")
    try:
        await late.connect()
    except RuntimeError as refusal:
        print(f"the deleted token opens nothing: {refusal}")
    await user.close()
    await root.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
    # The client's own threads may abort an interpreter that winds down, so it does not.
    sys.stdout.flush()
    os._exit(0)
