"""All commands: the request of each code, and how to decode it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from borzoi.model.errors import InvalidCommand
from borzoi.protocol.buffers import Buffer, Reader
from borzoi.protocol.commands import (
    groups,
    messages,
    offsets,
    partitions,
    segments,
    streams,
    system,
    tokens,
    topics,
    users,
)
from borzoi.protocol.contract import Listing, Request, Response

__all__ = ["REQUESTS", "Request", "Response", "decode_request", "decode_response"]

_REQUESTS: Final[dict[int, type[Request]]] = {
    int(request.CODE): request
    for request in (
        system.Ping,
        system.GetStats,
        system.GetSnapshot,
        system.GetClusterMetadata,
        system.GetMe,
        system.GetClient,
        system.GetClients,
        users.GetUser,
        users.GetUsers,
        users.CreateUser,
        users.DeleteUser,
        users.UpdateUser,
        users.UpdatePermissions,
        users.ChangePassword,
        users.LoginUser,
        users.LogoutUser,
        tokens.GetPersonalAccessTokens,
        tokens.CreatePersonalAccessToken,
        tokens.DeletePersonalAccessToken,
        tokens.LoginWithPersonalAccessToken,
        messages.PollMessages,
        messages.SendMessages,
        messages.FlushUnsavedBuffer,
        offsets.GetConsumerOffset,
        offsets.StoreConsumerOffset,
        offsets.DeleteConsumerOffset,
        streams.GetStream,
        streams.GetStreams,
        streams.CreateStream,
        streams.DeleteStream,
        streams.UpdateStream,
        streams.PurgeStream,
        topics.GetTopic,
        topics.GetTopics,
        topics.CreateTopic,
        topics.DeleteTopic,
        topics.UpdateTopic,
        topics.PurgeTopic,
        partitions.CreatePartitions,
        partitions.DeletePartitions,
        segments.DeleteSegments,
        groups.GetConsumerGroup,
        groups.GetConsumerGroups,
        groups.CreateConsumerGroup,
        groups.DeleteConsumerGroup,
        groups.JoinConsumerGroup,
        groups.LeaveConsumerGroup,
    )
}

#: The request class of every code.
REQUESTS: Final[Mapping[int, type[Request]]] = MappingProxyType(_REQUESTS)


def decode_request(code: int, payload: Buffer) -> Request:
    """The request in a frame; bytes behind its last field are ignored."""
    request = _REQUESTS.get(code)
    if request is None:
        raise InvalidCommand(f"there is no command {code}")
    return request.decode(Reader(payload))


def decode_response(request: type[Request], payload: Buffer) -> Response | None:
    """The answer to a request of that class, None when it is empty or says "no such thing".

    An empty payload says so, except where the answer is a list: there it is an empty list.
    """
    response = request.RESPONSE
    if response is None or (not payload and not issubclass(response, Listing)):
        return None
    return response.decode(Reader(payload))
