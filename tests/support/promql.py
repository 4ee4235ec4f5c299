"""What a query of Prometheus asks for: the names and labels it selects and groups by."""

from typing import Any

import promql_parser

#: What a dashboard puts into its queries before they are queries.
PUT_IN = {
    "$__rate_interval": "5m",
    "$job": ".*",
    "$instance": ".*",
    "$stream": ".*",
    "$topic": ".*",
}
#: Labels that Prometheus adds to everything it scrapes.
ADDED = {"job", "instance"}


def selected(expression: str) -> dict[str, set[str]]:
    """The labels that are used with each name; raises when the expression is no query."""
    for variable, value in PUT_IN.items():
        expression = expression.replace(variable, value)
    tree = promql_parser.parse(expression)
    found: dict[str, set[str]] = {}
    grouped: set[str] = set()

    def visit(node: Any) -> bool:
        if isinstance(node, promql_parser.VectorSelector):
            assert node.name, expression
            matched = {matcher.name for matcher in node.matchers.matchers}
            found.setdefault(node.name, set()).update(matched)
        if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
            grouped.update(node.modifier.labels)
        return True

    promql_parser.walk(tree, visit)
    return {name: (labels | grouped) - ADDED for name, labels in found.items()}
