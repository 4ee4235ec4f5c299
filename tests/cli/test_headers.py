import pytest

from borzoi.cli.headers import headers_of
from borzoi.model.errors import InvalidFormat
from borzoi.records.user_headers import HeaderKind


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("k:string:a:b", HeaderKind.STRING, "a:b"),
        ("k:bool:true", HeaderKind.BOOL, True),
        ("k:int8:-3", HeaderKind.INT8, -3),
        ("k:uint64:7", HeaderKind.UINT64, 7),
        ("k:float64:1.5", HeaderKind.FLOAT64, 1.5),
        ("k:raw:xyz", HeaderKind.RAW, b"xyz"),
    ],
)
def test_a_header_says_its_kind(text, kind, value):
    (found,) = headers_of(text).values()
    assert (found.kind, found.value) == (kind, value)


def test_several_are_separated_by_commas():
    assert list(headers_of("a:string:1,b:uint8:2")) == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("k", "'k' is not a header: write key:kind:value"),
        ("k:string", "is not a header"),
        (":string:x", "is not a header"),
        ("k:text:x", "'text' is not a kind of header; allowed are raw, string"),
        ("k:uint8:x", "the header 'k' is not of kind uint8: 'x'"),
        ("k:bool:yes", "the header 'k' is not of kind bool: 'yes'"),
    ],
)
def test_what_is_no_header_is_named(text, sentence):
    with pytest.raises(InvalidFormat, match=sentence):
        headers_of(text)
