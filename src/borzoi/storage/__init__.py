"""The log engine: segments, indexes, offsets and the metadata log, on one medium.

Handed work by `partitions` (one owner per partition, so nothing here takes a lock) and by `shard`;
hands bytes to the medium of `storage/media.py` and to nothing else. What a message means, who may
read it and how it travels do not belong here.
"""
