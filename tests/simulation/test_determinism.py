"""A run is a function of its seed: whatever the process, whatever the fidelity."""

import os

import pytest
from tests.support.interpreter import run_python

SEEDS = (11, 24)
PROGRAM = """
import sys
from borzoi.simulator.draws import draw
from borzoi.simulator.simulation import simulate
for seed in map(int, sys.argv[2:]):
    chosen = draw(seed, {"full": int(sys.argv[1]), "safety_ticks": 1500})
    outcome = simulate(chosen)
    print(seed, outcome.digest, outcome.state_digest, outcome.ticks, outcome.failure)
"""


def digests(hash_seed: str, full: int) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    seeds = map(str, SEEDS)
    return run_python("-c", PROGRAM, str(full), *seeds, env=environment, check=True).stdout


@pytest.fixture(scope="module")
def reference() -> str:
    return digests("0", 0)


@pytest.mark.parametrize("hash_seed", ["1", "4242", "random"])
def test_the_digest_does_not_depend_on_the_hash_seed(reference, hash_seed):
    assert digests(hash_seed, 0) == reference


@pytest.mark.parametrize("hash_seed", ["0", "77", "4242"])
def test_bytes_and_values_give_the_same_digest(reference, hash_seed):
    assert digests(hash_seed, 1) == reference


def test_different_seeds_differ(reference):
    lines = reference.splitlines()
    assert len({line.split()[1] for line in lines}) == len(SEEDS)
    assert all(line.endswith("None") for line in lines), reference
