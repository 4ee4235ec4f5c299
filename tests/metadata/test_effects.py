from typing import get_args

import msgspec

from borzoi.metadata import effects
from borzoi.metadata.effects import ApplyResult, DroppedToken, Effect


def test_effects_are_values_without_names_that_may_be_gone():
    for kind in get_args(Effect):
        assert issubclass(kind, msgspec.Struct)
        assert kind.__struct_config__.frozen
        assert set(kind.__struct_fields__) - {"name", "token_hash"} <= {
            "stream_id",
            "topic_id",
            "group_id",
            "user_id",
            "partition_ids",
            "topics",
        }


def test_every_effect_of_the_module_is_in_the_union():
    classes = {
        value
        for value in vars(effects).values()
        if isinstance(value, type) and value.__module__ == effects.__name__
    }
    assert classes - {ApplyResult} == set(get_args(Effect))


def test_an_outcome_is_empty_unless_something_came_of_it():
    assert ApplyResult() == ApplyResult(None, ())


def test_no_hash_reaches_a_representation():
    assert "s3cret" not in repr(ApplyResult(effects=(DroppedToken(1, "token", "s3cret"),)))
