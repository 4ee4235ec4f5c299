"""What the single owner of a partition does: append, poll, offsets, deduplication, encryption.

Used by `shard`, one operation after another on one event loop; stores batches in `storage`.
Sockets, permissions and the names of streams and topics do not belong here.
"""
