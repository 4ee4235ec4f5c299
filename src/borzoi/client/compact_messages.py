"""Messages as the accelerator makes them: one block of memory each, its numbers not yet read.

They can do what those of `plain_messages.py` can, by the same functions. Only where the accelerator
is there can this module be imported.
"""

from dataclasses import make_dataclass
from types import FunctionType
from typing import Any, Final, Generic, Self, TypeVar, cast

from borzoi.client import plain_messages as plain
from borzoi.records.accelerator import Native, native

T = TypeVar("T")

Message: Final[Any] = cast(Native, native).Message


class _Fields:
    """What msgspec gives every struct."""

    __match_args__: tuple[str, ...] = plain.Message.__struct_fields__

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return _values(self) == _values(other)

    def __hash__(self) -> int:
        return hash(_values(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), _values(self)

    def __replace__(self, **changes: Any) -> Self:
        return type(self)(**dict(zip(self.__match_args__, _values(self), strict=True)) | changes)


def _values(message: Any) -> tuple[Any, ...]:
    return tuple(getattr(message, name) for name in message.__match_args__)


def _dataclass_fields(names: tuple[str, ...]) -> Any:
    """By these, msgspec and `dataclasses` know what to write of an object that is no struct."""
    return cast(Any, make_dataclass("Fields", names)).__dataclass_fields__


def _furnish() -> None:
    for source in (plain.Message, _Fields):
        for name, found in vars(source).items():
            if isinstance(found, FunctionType | property) or name == "__match_args__":
                setattr(Message, name, found)
    Message.__doc__ = plain.Message.__doc__
    Message.__dataclass_fields__ = _dataclass_fields(_Fields.__match_args__)


_furnish()


class ValueMessage(Message, Generic[T]):  # type: ignore[misc]
    __doc__ = plain.ValueMessage.__doc__
    __module__ = plain.ValueMessage.__module__
    __slots__ = ("_value",)
    __match_args__: Any = plain.ValueMessage.__struct_fields__
    __dataclass_fields__ = _dataclass_fields(plain.ValueMessage.__struct_fields__)

    _value: T

    def __new__(cls, *fields: Any, **named: Any) -> Self:
        names = cls.__match_args__
        if len(fields) == len(names):
            *fields, named["value"] = fields  # type: ignore[assignment]
        if "value" not in named:
            raise TypeError("a ValueMessage has a value")
        value = named.pop("value")
        made: Self = Message.__new__(cls, *fields, **named)
        made._value = value
        return made

    @property
    def value(self) -> T:
        return self._value

    @classmethod
    def of(cls, message: Any, value: T) -> Self:
        return cls(*_values(message), value)
