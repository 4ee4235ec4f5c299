"""A pipeline file that is valid, and the same with one thing changed."""

import tomllib
from typing import Any

GOOD = """
[pipeline]
name = "p"
trigger = "5s"

[server]
address = "host:1"
token = { env = "TOKEN" }

[source.orders]
subscribe = "shop/orders"
start = { 0 = 5, 1 = 9 }
max_bytes_per_trigger = "256 MiB"
format = { json = "id long" }
on_error = "dead_letter"
expect = "id > 0"

[table.countries]
csv = "countries.csv"
options = { header = true }

[[step]]
name = "clean"
from = ["orders", "countries"]
sql = "select 1"
watermark = { column = "at", delay = "30 seconds" }
output = "append"

[sink.lake]
from = "clean"
table = { delta = "lake/orders", partition_by = ["day(at)"], target_file_size = "64 MiB" }

[sink.out]
from = "clean"
topic = "shop/out"
key = "id"
create_partitions = 3

[dead_letter]
topic = "shop/dead"
"""


def document() -> dict[str, Any]:
    return tomllib.loads(GOOD)


def changed(path: str, value: Any) -> dict[str, Any]:
    """The document with one key set, or removed when the value is None."""
    said = document()
    *sections, key = path.split(".")
    at: Any = said
    for section in sections:
        at = at[int(section)] if section.isdigit() else at[section]
    if value is None:
        del at[key]
    else:
        at[key] = value
    return said
