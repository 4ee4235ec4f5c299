"""The nodes that clients see. Pure: configuration and bound ports in, the answer out.

This is label mode: the nodes are those of the configuration, and one flag determines the roles,
which is all that clients of 0.8 use.
"""

from collections.abc import Mapping, Sequence

import msgspec

from borzoi.model.system import NodeRole, NodeStatus
from borzoi.protocol.commands.system import ClusterMetadata, ClusterNode

SINGLE_CLUSTER = "single-node"
SINGLE_NODE = "iggy-node"


class Node(msgspec.Struct, frozen=True):
    """A configured node; a port of 0 is the same as ours."""

    name: str
    ip: str
    tcp: int = 0
    quic: int = 0
    http: int = 0
    websocket: int = 0


class ClusterNodes(msgspec.Struct):
    """The answer to `GetClusterMetadata` on this node."""

    name: str
    current: Node
    others: Sequence[Node] = ()
    follower: bool = False

    def bound(self, ports: Mapping[str, int]) -> None:
        """The bound ports, by transport."""
        own = self.current
        self.current = Node(
            own.name,
            own.ip,
            ports.get("tcp", own.tcp),
            ports.get("quic", own.quic),
            ports.get("http", own.http),
            ports.get("websocket", own.websocket),
        )

    def metadata(self) -> ClusterMetadata:
        own_role = NodeRole.FOLLOWER if self.follower else NodeRole.LEADER
        nodes = [self._node(self.current, own_role)]
        # Report exactly one leader, even on a follower with several neighbours: clients use the
        # first leader they find, and two of them would split the writers.
        leaders = 1 if self.follower else 0
        for number, node in enumerate(self.others):
            role = NodeRole.LEADER if number < leaders else NodeRole.FOLLOWER
            nodes.append(self._node(node, role))
        return ClusterMetadata(self.name, tuple(nodes))

    def _node(self, node: Node, role: NodeRole) -> ClusterNode:
        own = self.current
        return ClusterNode(
            name=node.name,
            ip=node.ip,
            tcp_port=node.tcp or own.tcp,
            quic_port=node.quic or own.quic,
            http_port=node.http or own.http,
            websocket_port=node.websocket or own.websocket,
            role=role,
            status=NodeStatus.HEALTHY,
        )


def single_node(ip: str, ports: Mapping[str, int]) -> ClusterNodes:
    """A server without clustering: one node, healthy, the leader."""
    return ClusterNodes(SINGLE_CLUSTER, Node(SINGLE_NODE, ip, **ports))
