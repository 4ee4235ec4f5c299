"""The deterministic simulator of a replicated cluster.

It contains virtual time, a faulty network, faulty disks, crashing processes and wandering clocks
around the production replicas of `borzoi.consensus`; a workload with a shadow model that predicts
results; the checkers; campaigns over many seeds. A run is a function of its seed: same seed and
same code, same trace, same digest.

Used by `borzoi simulate`, `python -m borzoi.simulator` and the tests.

Protocol decisions (`consensus`), anything that reads a real clock inside a run, and any rule that
production code should follow do not belong here. The simulator only observes and disturbs.
"""
