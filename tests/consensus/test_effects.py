from typing import get_args

from borzoi.consensus import effects
from borzoi.consensus.effects import Effect, Refusal


def test_every_effect_is_in_the_union_a_driver_matches():
    defined = {
        value
        for value in vars(effects).values()
        if isinstance(value, type)
        and value.__module__ == effects.__name__
        and issubclass(value, tuple)
    }
    assert defined == set(get_args(Effect))


def test_refusals_never_collide_with_statuses_of_a_machine():
    assert all(refusal >= 2**31 for refusal in Refusal)
