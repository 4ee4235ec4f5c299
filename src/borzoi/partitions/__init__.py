"""What the single owner of a partition does: append, poll, offsets, deduplication, encryption.

Handed work by `shard`, one operation after another on one event loop; hands stored batches to
`storage`. Sockets, permissions and the names of streams and topics do not belong here.
"""
