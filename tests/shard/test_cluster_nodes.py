from borzoi.model.system import NodeRole
from borzoi.shard.cluster_nodes import ClusterNodes, Node, single_node

OTHERS = [Node("b", "10.0.0.2", tcp=1), Node("c", "10.0.0.3")]


def roles(nodes: ClusterNodes) -> list[tuple[str, NodeRole]]:
    return [(node.name, node.role) for node in nodes.metadata().nodes]


def test_exactly_one_leader_is_reported() -> None:
    assert roles(ClusterNodes("x", Node("a", "10.0.0.1"), OTHERS)) == [
        ("a", NodeRole.LEADER),
        ("b", NodeRole.FOLLOWER),
        ("c", NodeRole.FOLLOWER),
    ]
    assert roles(ClusterNodes("x", Node("a", "10.0.0.1"), OTHERS, follower=True)) == [
        ("a", NodeRole.FOLLOWER),
        ("b", NodeRole.LEADER),
        ("c", NodeRole.FOLLOWER),
    ]


def test_ports_that_are_not_given_are_our_own_as_they_were_bound() -> None:
    nodes = ClusterNodes("x", Node("a", "10.0.0.1", tcp=0, http=3000), OTHERS)
    nodes.bound({"tcp": 8090})
    assert [(node.tcp_port, node.http_port) for node in nodes.metadata().nodes] == [
        (8090, 3000),
        (1, 3000),
        (8090, 3000),
    ]


def test_a_server_without_clustering_is_alone() -> None:
    metadata = single_node("127.0.0.1", {"tcp": 8090}).metadata()
    assert metadata.name == "single-node"
    assert [(node.name, node.tcp_port) for node in metadata.nodes] == [("iggy-node", 8090)]
