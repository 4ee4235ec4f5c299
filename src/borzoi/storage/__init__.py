"""The log engine: segments, indexes, offsets and the metadata log, on one medium.

Used by `partitions` (one owner per partition, so nothing here takes a lock) and by `shard`; writes
only through the medium of `storage/media.py`. The meaning of messages, permissions and transports
do not belong here.
"""
