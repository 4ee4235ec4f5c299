import pytest
from tests.support.promql import selected

from borzoi.cli.dashboard import COLUMNS, ROWS, dashboard

PANELS = [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def test_every_panel_is_there_under_its_row() -> None:
    titles = [panel["title"] for panel in dashboard()["panels"]]
    assert titles == [
        title for row, panels in ROWS.items() for title in (row, *(one.title for one in panels))
    ]
    numbers = [panel["id"] for panel in dashboard()["panels"]]
    assert len(set(numbers)) == len(numbers)


def test_no_panel_lies_on_another_or_leaves_the_page() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= COLUMNS
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        taken |= cells


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_every_query_is_one_and_is_about_the_chosen_servers(panel) -> None:
    for target in panel["targets"]:
        assert selected(target["expr"])
        assert 'job=~"$job", instance=~"$instance"' in target["expr"]
        assert target["datasource"]["uid"] == "${datasource}"
    references = [target["refId"] for target in panel["targets"]]
    assert len(set(references)) == len(references)
