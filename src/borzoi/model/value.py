"""What a value is here: a struct whose fields are set once."""

from typing import Any, TypeVar, dataclass_transform

import msgspec


# msgspec passes `frozen` on to subclasses; type checkers need the transform to know it.
@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Value(msgspec.Struct, frozen=True):
    """An immutable value: compared, hashed and shown by its fields.

    A struct instead of a dataclass because every start makes each class again
    (docs/decisions/0006-values-are-structs.md).
    """


S = TypeVar("S", bound=msgspec.Struct)


def like(kind: type[S], source: object, **given: Any) -> S:
    """A struct whose fields are those given, and otherwise what `source` has under their names."""
    names = [name for name in kind.__struct_fields__ if name not in given]
    return kind(**{name: getattr(source, name) for name in names}, **given)
