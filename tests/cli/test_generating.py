import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import yaml
from click.testing import CliRunner
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from tests.support.promql import selected
from tests.support.server import running_server

from borzoi.__main__ import main
from borzoi.cli.alerts import alerts
from borzoi.cli.dashboard import dashboard
from borzoi.client import Client


def generated(what: str) -> str:
    result = CliRunner().invoke(main, ["generate", what])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_what_is_printed_is_one_document() -> None:
    assert json.loads(generated("grafana")) == dashboard()
    assert yaml.safe_load(generated("alerts")) == alerts()


def queries() -> Iterator[tuple[str, str]]:
    """Where a query stands, and the query."""
    document: dict[str, Any] = json.loads(generated("grafana"))
    for panel in document["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for variable in document["templating"]["list"]:
        if variable["type"] == "query":
            asked: str = variable["query"]["query"]
            name, _, label = asked.removeprefix("label_values(").removesuffix(")").rpartition(", ")
            yield variable["name"], f"sum by ({label}) ({name})"
    for rule in yaml.safe_load(generated("alerts"))["groups"][0]["rules"]:
        yield rule["alert"], rule["expr"]


@pytest.mark.system
def test_every_query_asks_for_what_a_server_with_data_has() -> None:
    with running_server({"HTTP_ENABLED": "true", "HTTP_ADDRESS": "127.0.0.1:0"}) as server:
        with Client("borzoi://iggy:iggy@{}:{}".format(*server.tcp_address)) as client:
            client.create_stream("shop")
            client.create_topic("shop/orders", partitions=2)
            client.create_consumer_group("shop/orders", "billing")
            for _ in range(32):
                client.send_messages("shop/orders", ["one", "two"])
            text = httpx.get("http://{}:{}/metrics".format(*server.addresses["http"])).text
    labels: dict[str, set[str]] = {"up": set()}  # Prometheus makes it
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    for place, query in queries():
        for name, used in selected(query).items():
            assert name in labels, place
            assert used <= labels[name], (place, name)


@pytest.mark.system
def test_every_name_that_a_server_has_is_on_the_dashboard() -> None:
    shown = {name for _, query in queries() for name in selected(query)}
    with running_server({"HTTP_ENABLED": "true", "HTTP_ADDRESS": "127.0.0.1:0"}) as server:
        text = httpx.get("http://{}:{}/metrics".format(*server.addresses["http"])).text
    for family in text_string_to_metric_families(text):
        names = {family.name, *(f"{family.name}{end}" for end in ("_total", "_bucket", "_count"))}
        assert names & shown, family.name
