"""The page that `borzoi bench` leaves behind."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.browser

CHARTS = ("throughput", "latency", "percentiles", "histogram")
DRAWN = """
    [...document.querySelectorAll("#%s svg path, #%s svg rect")].map((mark) => {
        const box = mark.getBoundingClientRect();
        return [box.width, box.height];
    })
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A report of producers and consumers together, so that every chart has two series."""
    folder = tmp_path_factory.mktemp("bench")
    sizes = ("-m", "100", "-P", "20", "-b", "200", "--processes", "1", "-t", "20 ms")
    load = ("ppc", "-p", "2", "-c", "2", "output", "-o", str(folder))
    command = [sys.executable, "-m", "borzoi", "bench", "--embedded", "--limit", *sizes, *load]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=600)
    (page,) = folder.rglob("report.html")
    return page


def test_every_chart_is_drawn(browser, report):
    page = browser.opened(report.as_uri())
    assert page.faults == []
    assert page.requests == [report.as_uri(), "data:,"][: len(page.requests)]
    for chart in CHARTS:
        marks = page.evaluated(DRAWN % (chart, chart))
        assert marks, chart
        # A line from one side to the other, or bars that stand up.
        assert max(width for width, _ in marks) > (1 if chart == "histogram" else 300), chart
        assert max(height for _, height in marks) > 20, chart
        axis = f"document.querySelectorAll('#{chart} svg text').length"
        assert page.evaluated(axis) > 5, chart
        series = f"document.querySelectorAll('#{chart} .legend button').length"
        assert page.evaluated(series) >= 2, chart
    assert page.evaluated("document.querySelectorAll('#summary tr').length") >= 3
    assert "loopback" in page.evaluated("document.getElementById('limits').textContent")
    # For people who want to see it; the folder is pytest's and goes away.
    shot = report.with_suffix(".png")
    page.screenshot(shot)
    assert shot.read_bytes().startswith(b"\x89PNG")
    assert shot.stat().st_size > 20_000


def test_charts_answer_to_the_pointer_and_to_their_legend(browser, report):
    page = browser.opened(report.as_uri())
    for chart in CHARTS:
        tip = f"document.querySelector('#{chart} .tip').textContent"
        assert page.evaluated(tip) == ""
        page.pointed(f"#{chart} svg")
        page.until(f"{tip} !== ''")
        marks = f"document.querySelectorAll('#{chart} svg path, #{chart} svg rect').length"
        before = page.evaluated(marks)
        page.clicked(f"#{chart} .legend button")
        assert page.evaluated(marks) < before
        page.clicked(f"#{chart} .legend button")
        assert page.evaluated(marks) == before
    assert page.faults == []


def test_the_page_shows_itself_in_the_dark(browser, report):
    page = browser.opened(report.as_uri())
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluated(colour)
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    page.call("Emulation.setEmulatedMedia", features=dark)
    page.until(f"{colour} !== '{light}'")
