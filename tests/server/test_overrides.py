from typing import Any

import pytest

from borzoi.model.errors import InvalidConfiguration
from borzoi.server.config import KEYS
from borzoi.server.overrides import overlaid, overrides, unknown_variables, variable


def test_both_prefixes_are_one_variable_and_must_agree() -> None:
    assert variable({"IGGY_TCP_ADDRESS": "a"}, "TCP_ADDRESS") == "a"
    assert variable({"BORZOI_TCP_ADDRESS": "a", "IGGY_TCP_ADDRESS": "a"}, "TCP_ADDRESS") == "a"
    assert variable({"BORZOI_TCP_ADDRESS": ""}, "TCP_ADDRESS") is None
    with pytest.raises(InvalidConfiguration, match="BORZOI_TCP_ADDRESS and IGGY_TCP_ADDRESS"):
        variable({"BORZOI_TCP_ADDRESS": "a", "IGGY_TCP_ADDRESS": "b"}, "TCP_ADDRESS")


def test_overrides_are_written_into_sections_and_numbered_tables() -> None:
    environment = {
        "IGGY_SYSTEM_ENCRYPTION_KEY": "secret",
        "BORZOI_CLUSTER_NODE_OTHERS_1_PORTS_TCP": "8091",
    }
    found = list(overrides(environment, KEYS))
    assert [(one.variable, one.secret) for one in found] == [
        ("IGGY_SYSTEM_ENCRYPTION_KEY", True),
        ("BORZOI_CLUSTER_NODE_OTHERS_1_PORTS_TCP", False),
    ]
    assert overlaid({}, found) == {
        "system": {"encryption": {"key": "secret"}},
        "cluster": {"node": {"others": [{}, {"ports": {"tcp": "8091"}}]}},
    }


@pytest.mark.parametrize(
    ("document", "name", "sentence"),
    [
        ({"tcp": 3}, "TCP_ADDRESS", "tcp is a section, not 3; BORZOI_TCP_ADDRESS sets a key in it"),
        ({"tcp": {"tls": True}}, "TCP_TLS_ENABLED", "tcp.tls is a section, not True; "),
        (
            {"cluster": {"node": {"others": [1]}}},
            "CLUSTER_NODE_OTHERS_0_NAME",
            "cluster.node.others[0] is a section, not 1; ",
        ),
        (
            {"cluster": {"node": {"others": {"a": 1}}}},
            "CLUSTER_NODE_OTHERS_0_NAME",
            "cluster.node.others is an array of tables, not {'a': 1}; ",
        ),
    ],
)
def test_a_variable_below_what_is_no_section_is_refused(
    document: dict[str, Any], name: str, sentence: str
) -> None:
    found = list(overrides({f"BORZOI_{name}": "x"}, KEYS))
    with pytest.raises(InvalidConfiguration) as refused:
        overlaid(document, found)
    assert str(refused.value).startswith(sentence)


def test_unknown_variables_are_told_with_the_nearest_known_name() -> None:
    environment = {
        "BORZOI_TPC_ADDRESS": "x",
        "IGGY_QQQQQQ": "x",
        "IGGY_CONFIG_PATH": "x",
        "IGGY_CONNECTORS_SINK_A": "x",
        "BORZOI_TCP_ADDRESS": "x",
        "HOME": "x",
    }
    assert list(unknown_variables(environment, KEYS)) == [
        "the variable BORZOI_TPC_ADDRESS is not a setting; did you mean BORZOI_TCP_ADDRESS?",
        "the variable IGGY_QQQQQQ is not a setting",
    ]
