"""Values as payloads and back."""

from dataclasses import dataclass

import msgspec
import pydantic
import pytest

from borzoi.client.codecs import BYTES, JSON, TEXT, codec_of
from borzoi.model.errors import InvalidFormat


class Struct(msgspec.Struct):
    id: int


@dataclass
class Data:
    id: int


class Model(pydantic.BaseModel):
    id: int


@pytest.mark.parametrize(
    ("kind", "value", "payload"),
    [
        (BYTES, b"\xff", b"\xff"),
        (bytes, b"\xff", b"\xff"),
        (TEXT, "ü", "ü".encode()),
        (str, "ü", "ü".encode()),
        (JSON, {"a": [1, None]}, b'{"a":[1,null]}'),
        (Struct, Struct(1), b'{"id":1}'),
        (Data, Data(1), b'{"id":1}'),
        (Model, Model(id=1), b'{"id":1}'),
        (dict[str, int], {"a": 1}, b'{"a":1}'),
    ],
    ids=range(9),
)
def test_a_value_comes_back(kind, value, payload: bytes) -> None:
    codec = codec_of(kind)
    assert codec.encode(value) == payload
    assert codec.decode(payload) == value


@pytest.mark.parametrize("kind", [TEXT, JSON, Struct, Data, Model], ids=range(5))
def test_bytes_that_are_no_such_value_are_a_value_error(kind) -> None:
    with pytest.raises(ValueError):
        codec_of(kind).decode(b'\xff{"id":"x"}')


def test_a_class_that_no_codec_knows_is_refused() -> None:
    with pytest.raises(InvalidFormat, match="there is no codec for"):
        codec_of(object())  # type: ignore[arg-type]
