"""The bodies and parameters of HTTP requests, as the server reads them."""

import json
from typing import Any

import msgspec

from borzoi.protocol.rest.inputs import Input


def read(shape: type[Input[Any]], **fields: Any) -> Any:
    return msgspec.json.decode(json.dumps(fields), type=shape)


def arguments(shape: type[Input[Any]], **fields: Any) -> dict[str, object]:
    given: dict[str, object] = read(shape, **fields).arguments(now=0)
    return given
