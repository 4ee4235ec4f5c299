import tomllib

from hypothesis import given
from hypothesis import strategies as st

from borzoi.server.toml import written

KEYS = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
SCALARS = st.one_of(
    st.booleans(),
    st.integers(-(2**53), 2**53),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x7f"), max_size=20),
    st.lists(st.text('abc"\\', max_size=4), max_size=3),
)
TABLES = st.recursive(
    st.dictionaries(KEYS, SCALARS, max_size=4),
    lambda inner: st.dictionaries(KEYS, st.one_of(SCALARS, inner), max_size=4),
    max_leaves=8,
)


@given(TABLES)
def test_what_is_written_reads_back_the_same(document: dict) -> None:
    assert tomllib.loads(written(document)) == document


def test_arrays_of_tables_keep_their_sections() -> None:
    document = {
        "cluster": {
            "enabled": True,
            "others": [{"name": "b", "ports": {"tcp": 1}}, {"name": "c", "ports": {"tcp": 2}}],
        }
    }
    assert tomllib.loads(written(document)) == document
