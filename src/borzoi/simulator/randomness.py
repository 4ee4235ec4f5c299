"""The tree of random streams under one seed.

Each concern (network, storage, processes, workload …) draws from its own stream, so that one more
draw in one of them does not shift the others: a seed keeps its meaning when a fault model grows.
"""

from random import Random
from typing import Final

STREAMS: Final = (
    "draw",
    "network",
    "storage",
    "process",
    "clock",
    "workload",
    "liveness",
)


def stream(seed: int, name: str) -> Random:
    """`random` hashes a string seed with SHA-512, so it does not depend on PYTHONHASHSEED."""
    return Random(f"{seed}/{name}")


def happens(random: Random, probability: float) -> bool:
    """Draws nothing when the answer is certain: a fault kind that is switched off costs no draw."""
    return probability > 0.0 and random.random() < probability


def spread(random: Random, mean: float) -> int:
    """An exponential number of ticks around `mean`, at least 1."""
    return 1 + int(random.expovariate(1.0) * mean)
