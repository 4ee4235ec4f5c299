"""Filters over messages, such as ``json.price > 10 and headers.kind == "order"``. Pure.

Names are `partition`, `offset`, `id`, `timestamp`, `size`, `text`, `json` and `headers`. A path
to something missing is None, and a comparison with None is false unless it is ``== None``.
Comparisons, ``and``, ``or``, ``not``, ``in`` and brackets work as in Python; calls are rejected.
"""

import ast
import json
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from borzoi.client import Message
from borzoi.model.errors import InvalidFormat

Condition = Callable[[Message], bool]
_Value = Callable[[Message], Any]

_COMPARISONS: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
}


def _json_of(message: Message) -> Any:
    try:
        return json.loads(message.payload)
    except ValueError:
        return None


NAMES: Final[Mapping[str, _Value]] = {
    "partition": lambda message: message.partition,
    "offset": lambda message: message.offset,
    "id": lambda message: message.id,
    "timestamp": lambda message: message.timestamp,
    "size": lambda message: len(message.payload),
    "text": lambda message: message.payload.decode("utf-8", "replace"),
    "json": _json_of,
    "headers": lambda message: message.headers,
}


def condition(text: str) -> Condition:
    """Compile a filter; `InvalidFormat` says what it may not contain."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as fault:
        raise InvalidFormat(f"the filter {text!r} cannot be read: {fault.msg}") from fault
    value = _compiled(tree.body)
    return lambda message: bool(value(message))


def _compiled(node: ast.expr) -> _Value:
    match node:
        case ast.Constant(value=value):
            return lambda _: value
        case ast.Name(id=name):
            if name not in NAMES:
                raise InvalidFormat(f"a filter knows no {name!r}; it knows {', '.join(NAMES)}")
            return NAMES[name]
        case ast.Attribute(value=inner, attr=name):
            return _member(_compiled(inner), lambda _: name)
        case ast.Subscript(value=inner, slice=index):
            return _member(_compiled(inner), _compiled(index))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            negated = _compiled(operand)
            return lambda message: not negated(message)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return lambda _: -number
        case ast.BoolOp(op=op, values=values):
            parts = [_compiled(one) for one in values]
            both = all if isinstance(op, ast.And) else any
            return lambda message: both(part(message) for part in parts)
        case ast.Compare():
            return _comparison(node)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            compiled = [_compiled(one) for one in items]
            return lambda message: [one(message) for one in compiled]
        case _:
            raise InvalidFormat(f"a filter may not contain {ast.unparse(node)!r}")


def _member(inner: _Value, index: _Value) -> _Value:
    """An item of a mapping or a list; None where there is no such item."""

    def look(message: Message) -> Any:
        value, key = inner(message), index(message)
        try:
            return value[key]
        except (KeyError, IndexError, TypeError):
            return None

    return look


def _comparison(node: ast.Compare) -> _Value:
    operands = [_compiled(one) for one in (node.left, *node.comparators)]
    try:
        tests = [_COMPARISONS[type(op)] for op in node.ops]
    except KeyError:
        raise InvalidFormat(f"a filter may not contain {ast.unparse(node)!r}") from None

    def compare(message: Message) -> bool:
        values = [operand(message) for operand in operands]
        try:
            return all(
                test(left, right)
                for test, left, right in zip(tests, values, values[1:], strict=False)
            )
        except TypeError:
            return False  # such as None < 3: the message lacks the field

    return compare
