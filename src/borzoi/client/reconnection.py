"""Policies for a lost connection: pauses, which requests to repeat, which node to use; pure."""

from collections.abc import Iterator
from typing import Final

from borzoi.client.options import Address, Reconnection
from borzoi.model.system import NodeRole, NodeStatus, TransportKind
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.messages import PollMessages
from borzoi.protocol.commands.system import ClusterMetadata, ClusterNode
from borzoi.protocol.contract import Request

#: Statuses that a server sends before it closes. Whether it has executed the request before that
#: is unknown.
GOODBYE: Final = 8

#: Statuses that mean: the session has ended and the request was not executed. `unauthenticated` is
#: one of them after a login, because then the server has dropped it.
STALE: Final = 30
UNAUTHENTICATED: Final = 40

#: How often one call is resent because its connection ended.
REPEATS_MAX: Final = 8

#: How often a client follows a redirect to another leader.
REDIRECTS_MAX: Final = 3

#: Idempotent requests. The others are not repeated when their answer was lost: a second `create`
#: would fail although the first one succeeded, a second `delete` could delete what another client
#: has created in the meantime, and messages would be stored twice.
REPEATABLE: Final = frozenset(
    {
        *(code for code in Code if code.name.startswith("GET_")),
        Code.PING,
        Code.LOGIN_USER,
        Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN,
        Code.FLUSH_UNSAVED_BUFFER,
        Code.STORE_CONSUMER_OFFSET,
        Code.JOIN_CONSUMER_GROUP,
        Code.LEAVE_CONSUMER_GROUP,
    }
)


def is_repeatable(request: Request) -> bool:
    """Whether a request whose answer was lost may be sent again."""
    if isinstance(request, PollMessages):
        # The lost answer may have advanced the stored offset; a repeat would skip its messages.
        return not request.auto_commit
    return request.CODE in REPEATABLE


def pauses(reconnection: Reconnection) -> Iterator[float]:
    """The seconds to wait before each attempt after the first one."""
    left = reconnection.retries
    pause = reconnection.interval / 16
    while reconnection.enabled and (left is None or left > 0):
        yield pause
        pause = min(2 * pause, reconnection.interval)
        left = None if left is None else left - 1


def redirected(
    metadata: ClusterMetadata, address: Address, transport: TransportKind
) -> Address | None:
    """Return the node to use instead of this one; None if this one leads or none does."""
    if len(metadata.nodes) < 2:
        return None
    for node in metadata.nodes:
        if node.role is NodeRole.LEADER and node.status is NodeStatus.HEALTHY:
            leader = Address(node.ip, _port(node, transport))
            return None if _plain(leader) == _plain(address) else leader
    return None


def _port(node: ClusterNode, transport: TransportKind) -> int:
    return {
        TransportKind.TCP: node.tcp_port,
        TransportKind.QUIC: node.quic_port,
        TransportKind.HTTP: node.http_port,
        TransportKind.WEBSOCKET: node.websocket_port,
    }[transport]


def _plain(address: Address) -> tuple[str, int]:
    host = "127.0.0.1" if address.host == "localhost" else address.host
    return host, address.port
