import pytest
from tests.support.promql import selected


def test_names_and_labels_are_found() -> None:
    query = 'sum by (le, job) (rate(a_bucket{queue="x", job=~"$job"}[$__rate_interval])) > 2 * b'
    assert selected(query) == {"a_bucket": {"le", "queue"}, "b": {"le"}}


@pytest.mark.parametrize("wrong", ["rate(a)", "sum by (a", "a{b}", "nothing(a)"])
def test_what_is_no_query_is_an_error(wrong: str) -> None:
    with pytest.raises(ValueError):
        selected(wrong)
