"""Viewstamped Replication, pure: values in, effects out, the same bytes on every replica.

Lives here: the 256-byte messages, the replica of one group and its three phases (normal operation,
view change, recovery), repair, state transfer, the client table, the codecs of superblock, journal
and checkpoint, and the data plane as values. Work comes from a driver (``borzoi.cluster`` in the
server, ``borzoi.simulator`` in the laboratory), which feeds frames, ticks and completions to a
``Replica`` and carries out the effects it leaves behind. Ops are handed to a state machine:
``borzoi.metadata`` for the control plane, ``data_plane`` for partitions.

Does not belong here: sockets, files, clocks, randomness, event loops. Time is counted in ticks the
driver gives; dice are handed in.
"""
