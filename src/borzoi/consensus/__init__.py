"""Viewstamped Replication, pure: values in, effects out, the same bytes on every replica.

It contains the 256-byte messages, the replica of one group and its three phases (normal operation,
view change, recovery), repair, state transfer, the client table, the codecs of superblock, journal
and checkpoint, and the data plane as values. A driver (``borzoi.simulator``; the server
has none yet) feeds frames, ticks and completions to a ``Replica`` and carries out its effects. Ops
are applied to a state machine: ``borzoi.metadata`` for the control plane, ``data_plane`` for
partitions.

Sockets, files, clocks, randomness and event loops do not belong here. Time is counted in ticks of
the driver; random numbers are passed in.
"""
