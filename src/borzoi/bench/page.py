"""``report.html``: one self-contained file with charts and data."""

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

PLACE: Final = "/*REPORT*/null"


def page_of(report: Mapping[str, Any]) -> str:
    """The page of a report."""
    template = files("borzoi.bench").joinpath("report.html").read_text("utf-8")
    # A remark with "</script>" would end the script element.
    data = json.dumps(report, separators=(",", ":")).replace("</", "<\\/")
    return template.replace(PLACE, data)
