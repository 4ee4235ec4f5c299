"""The control plane as a pure state machine: streams, topics, partitions, groups, users, tokens.

Used by the metadata plane of the shards, one entry at a time and in order; returns outcomes and
effects for the plane to carry out. Every shard and every replica applies the same entries and must
reach the same state, so nothing here reads a clock, a file, a setting or random numbers.
Logging commands, notifying clients and carrying out effects belong to the packages above.
"""
