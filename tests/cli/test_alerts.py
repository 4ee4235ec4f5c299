import re

import pytest
from tests.support.promql import selected

from borzoi.cli.alerts import RULES, alerts


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_rule_is_one(rule) -> None:
    assert selected(rule.expression)
    assert re.fullmatch(r"\d+[mh]", rule.lasting)
    assert rule.severity in ("critical", "warning", "info")
    assert rule.summary.count("{{") == rule.summary.count("}}")


def test_names_are_taken_once() -> None:
    names = [rule["alert"] for rule in alerts()["groups"][0]["rules"]]
    assert len(set(names)) == len(names) == len(RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_sentence_uses_only_labels_that_the_query_leaves(rule) -> None:
    """A label that an aggregation drops would be an empty place in the sentence."""
    used = set(re.findall(r"\$labels\.(\w+)", rule.summary))
    kept = re.search(r"sum by \(([^)]*)\)", rule.expression)
    if kept is not None:
        assert used <= set(kept.group(1).split(", "))
