"""Messages as bytes: the 64-byte header, batches, checksums, user headers, compressed frames.

Handed work by `protocol` (sent and polled messages), `storage` and `partitions` (what goes into a
segment and what comes back out of one) and the clients; hands work to numpy, xxhash and the
compressors. Pure: a batch is one buffer and its positions, and every function here is a function
of its arguments. Who sends, where a segment lies, what a clock says and which ids are free does
not belong here.
"""
