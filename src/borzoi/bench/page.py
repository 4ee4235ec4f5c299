"""``report.html``: one file with its charts, its data and no address to fetch anything from."""

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

PLACE: Final = "/*REPORT*/null"


def page_of(report: Mapping[str, Any]) -> str:
    """The page of a report."""
    template = files("borzoi.bench").joinpath("report.html").read_text("utf-8")
    # "</" would end the script element inside a remark such as "</script>".
    data = json.dumps(report, separators=(",", ":")).replace("</", "<\\/")
    return template.replace(PLACE, data)
