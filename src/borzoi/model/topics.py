"""The settings of a topic."""

from enum import IntEnum


class Compression(IntEnum):
    """How the sealed segments of a topic are stored; clients always see plain bytes.

    The published 0.8 clients fail to decode a topic whose answer says LZ4 or ZSTD, so an answer
    to a client that did not announce it knows them says GZIP.
    """

    NONE = 1
    GZIP = 2
    LZ4 = 3
    ZSTD = 4
