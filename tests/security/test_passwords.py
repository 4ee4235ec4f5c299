import re
from time import thread_time

import pytest
from argon2 import PasswordHasher
from argon2 import Type as Variant

from borzoi.model.errors import InvalidPassword
from borzoi.security.passwords import (
    check_password,
    hash_password,
    is_outdated,
    verify_password,
)

#: Made by another implementation, with the parameters of the published servers.
FOREIGN = PasswordHasher(time_cost=2, memory_cost=19456, parallelism=1).hash("secret")


def test_a_password_is_kept_as_a_salted_argon2id_string():
    hashed = hash_password("secret")
    assert re.fullmatch(
        r"\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}", hashed
    )
    assert hashed != hash_password("secret")


def test_only_the_right_password_passes():
    hashed = hash_password("sécret")
    assert verify_password(hashed, "sécret")
    assert not verify_password(hashed, "secret")
    assert not verify_password(hashed, "")


@pytest.mark.parametrize(
    "hasher",
    [
        PasswordHasher(time_cost=1, memory_cost=8, parallelism=1),
        PasswordHasher(time_cost=1, memory_cost=64, parallelism=2, hash_len=16, salt_len=8),
        PasswordHasher(time_cost=1, memory_cost=8, parallelism=1, type=Variant.I),
    ],
)
def test_cost_and_variant_are_read_from_the_hash(hasher):
    hashed = hasher.hash("secret")
    assert verify_password(hashed, "secret")
    assert not verify_password(hashed, "wrong!")
    assert is_outdated(hashed)


def test_a_hash_of_todays_cost_is_not_outdated():
    assert not is_outdated(hash_password("secret"))
    assert not is_outdated(FOREIGN)


@pytest.mark.parametrize(
    "damaged",
    ["", "secret", "$argon2id$", FOREIGN[:-5] + "!!!!!", "$2b$12$abcdefghijklmnopqrstuv"],
    ids=["empty", "plain", "cut", "not base64", "another kind"],
)
def test_a_damaged_hash_lets_nobody_in(damaged):
    assert not verify_password(damaged, "secret")


def test_nobody_has_no_password():
    for text in ("", "secret", "iggy"):
        assert not verify_password(None, text)


def test_a_login_as_nobody_costs_as_much_as_a_wrong_password():
    """Processor time of this thread, and the least of several, in turns: what a busy machine adds
    to one of them it does not add to all."""

    def cost(hashed):
        started = thread_time()
        verify_password(hashed, "wrong!")
        return thread_time() - started

    hashed = hash_password("secret")
    costs = [(cost(None), cost(hashed)) for _ in range(10)]
    nobodys, somebodys = (min(each) for each in zip(*costs, strict=True))
    assert 0.3 < nobodys / somebodys < 3


@pytest.mark.parametrize("text", ["abc", "p" * 100, "é" * 50])
def test_a_password_within_bounds_passes(text):
    check_password(text)


@pytest.mark.parametrize("text", ["", "ab", "p" * 101, "é" * 51])
def test_a_password_out_of_bounds_is_refused_without_being_repeated(text):
    with pytest.raises(InvalidPassword) as refusal:
        check_password(text)
    assert not text or text not in str(refusal.value)
