"""Copies of sealed segments and of the metadata log in an object store or a directory, and back.

Handed segments by `server`, which knows the partitions; hands files to `objectstore`. A sealed
segment never changes, so it is copied without asking its owner to wait. What a segment is and when
it may be deleted is decided in `storage`; nothing here writes into a data directory but a restore.
"""
