"""Messages as bytes: the 64-byte header, batches, checksums, user headers, compressed frames.

Used by `protocol` (sent and polled messages), `storage` and `partitions` (the contents of segments)
and the clients; uses numpy, xxhash and the compressors. Pure: a batch is one buffer and its
positions, and the result of every function depends only on its arguments. Senders, files, clocks
and the choice of ids do not belong here.
"""
