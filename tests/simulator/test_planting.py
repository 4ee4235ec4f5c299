"""The texts of the planted bugs, and how they get into the core and out again."""

import pytest

from borzoi.consensus import following, normal, state
from borzoi.simulator import planting
from borzoi.simulator.planting import BUGS, Edit, LostEdit, plant


@pytest.mark.parametrize("name", BUGS)
def test_every_bug_changes_code_and_leaves_none_behind(name: str) -> None:
    functions = list(planting._changes((name,)))
    before = [function.__code__ for function in functions]
    with plant(name):
        for function, code in zip(functions, before, strict=True):
            assert function.__code__.co_code != code.co_code or (
                function.__code__.co_consts != code.co_consts
                or function.__code__.co_names != code.co_names
            )
            assert (
                function.__code__.co_varnames[: code.co_argcount]
                == code.co_varnames[: code.co_argcount]
            )
    assert [function.__code__ for function in functions] == before


def test_no_bug_is_no_change() -> None:
    before = normal.next_timestamp.__code__
    with plant():
        assert normal.next_timestamp.__code__ is before


def test_two_bugs_may_change_the_same_function() -> None:
    original = state.ReplicaState.flush_superblock.__code__
    with plant("suffix_not_persisted", "commit_not_persisted"):
        both = state.ReplicaState.flush_superblock.__code__
    with plant("suffix_not_persisted"):
        one = state.ReplicaState.flush_superblock.__code__
    assert len({original, one, both}) == 3


def test_the_original_code_is_back_after_an_error() -> None:
    before = following.acknowledge.__code__
    with pytest.raises(ZeroDivisionError), plant("ack_before_superblock"):
        raise ZeroDivisionError
    assert following.acknowledge.__code__ is before


def test_a_text_that_the_core_no_longer_has_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = {"lost": (Edit("normal:next_timestamp", "what the function never said", "pass"),)}
    monkeypatch.setattr(planting, "BUGS", lost)
    before = normal.next_timestamp.__code__
    with pytest.raises(LostEdit, match="normal:next_timestamp"), plant("lost"):
        pass
    assert normal.next_timestamp.__code__ is before


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(LookupError, match="no planted bug 'absent'"), plant("absent"):
        pass


def test_a_bug_is_compiled_apart_from_the_files_of_the_core() -> None:
    with plant("timestamp_from_local_clock"):
        assert normal.next_timestamp.__code__.co_filename == "<planted in next_timestamp>"
