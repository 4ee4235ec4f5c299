import pytest
from tests.support.interpreter import run_python

from borzoi.consensus.invariants import InvariantError, invariant, present


def test_a_broken_invariant_names_itself():
    invariant(True, "fine")
    with pytest.raises(InvariantError, match="commit above op"):
        invariant(False, "commit above op")


def test_what_must_be_there_is_given_back():
    assert present(0, "a number") == 0
    with pytest.raises(InvariantError, match="a number"):
        present(None, "a number")


def test_invariants_survive_the_optimising_flag():
    program = "from borzoi.consensus.invariants import invariant; invariant(False, 'kept')"
    ran = run_python("-O", "-c", program)
    assert "InvariantError: kept" in ran.stderr
