"""Every maximum, in one place, with its reason."""

from typing import Final

U8_MAX: Final = 2**8 - 1
U16_MAX: Final = 2**16 - 1
U32_MAX: Final = 2**32 - 1
U64_MAX: Final = 2**64 - 1
U128_MAX: Final = 2**128 - 1

#: Length prefix of a name on the wire is one byte.
NAME_BYTES_MAX: Final = 255

#: Bounds of the published servers; clients check the same ones before they send.
USERNAME_BYTES_MIN: Final = 3
USERNAME_BYTES_MAX: Final = 50
PASSWORD_BYTES_MIN: Final = 3
PASSWORD_BYTES_MAX: Final = 100
TOKEN_NAME_BYTES_MIN: Final = 3
TOKEN_NAME_BYTES_MAX: Final = 30

#: The namespace of a partition packs into 12 + 12 + 20 bits, and nothing may be masked away.
STREAMS_MAX: Final = 4096
TOPICS_PER_STREAM_MAX: Final = 4096
PARTITIONS_PER_TOPIC_MAX: Final = 1_000_000

#: One request may create at most this many partitions; more would hold up everyone else.
PARTITIONS_PER_REQUEST_MAX: Final = 1000

#: Consumers whose offsets one user stores in one topic: each is a file in every partition.
CONSUMERS_PER_TOPIC_AND_USER_MAX: Final = 4096

#: Ids of users are u32 and the largest value means "no user".
USERS_MAX: Final = U32_MAX - 1

#: A message: the header is fixed, the rest is bounded so that one message cannot fill a segment.
HEADER_BYTES: Final = 64
PAYLOAD_BYTES_MAX: Final = 64_000_000
USER_HEADERS_BYTES_MAX: Final = 100_000
USER_HEADER_BYTES_MAX: Final = 255
INDEX_ENTRY_BYTES: Final = 16

#: Key of a keyed send; its length travels in one byte.
MESSAGES_KEY_BYTES_MAX: Final = 255

#: A control request larger than this is refused as soon as its header is read.
CONTROL_PAYLOAD_BYTES_MAX: Final = 10 * 1024 * 1024

#: A frame of messages gets its memory when it is announced: without a bound a few bytes could ask
#: for gigabytes. It is the largest buffer that the memory pool keeps.
BATCH_BYTES_MAX: Final = 512 * 1024 * 1024

#: What one poll gives at most, beyond its first message: an answer whose length does not fit into
#: 32 bits could not be sent at all.
POLLED_BYTES_MAX: Final = 4_000_000_000

#: What one connection may make the server hold before it has logged in.
UNAUTHENTICATED_BYTES_MAX: Final = 64 * 1024

#: Positions inside a segment are u32.
SEGMENT_BYTES_MAX: Final = U32_MAX

#: How long a poll may wait for messages, in milliseconds; proxies take longer silence for a dead
#: connection.
POLL_WAIT_MS_MAX: Final = 60_000

#: `writev` takes at most this many buffers in one call (IOV_MAX on Linux).
VECTORS_MAX: Final = 1024

#: "never" for an expiry, "unlimited" for a size, in every field of the wire that has them.
NEVER: Final = U64_MAX
UNLIMITED: Final = U64_MAX
#: "as the server is configured" in the same fields.
SERVER_DEFAULT: Final = 0
