"""Copies of sealed segments and of the metadata log in an object store or a directory, and back.

Gets segments from `server`, which knows the partitions; passes files to `objectstore`. A sealed
segment never changes, so its owner need not wait while it is copied. `storage` decides what a
segment is and when it may be deleted; only a restore writes into a data directory.
"""
