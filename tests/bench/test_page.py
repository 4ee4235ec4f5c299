import json
import re

from borzoi.bench.page import PLACE, page_of


def test_the_page_holds_its_data_and_fetches_nothing():
    report = {"params": {"remark": "</script><b>"}, "figure": 1.5}
    page = page_of(report)
    assert PLACE not in page
    found = re.search(r'\{"params".*?"figure":1\.5\}', page)
    assert found is not None
    assert json.loads(found[0]) == report
    assert "</script><b>" not in page
    assert "http://www.w3.org" in page or "http://" not in page
    assert re.search(r'(?:src|href)="http', page) is None
