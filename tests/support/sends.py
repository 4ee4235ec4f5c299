"""Requests that send messages; by default to the first partition of the topic t in the stream s."""

from borzoi.model.identifiers import Identifier
from borzoi.model.partitioning import Partitioning
from borzoi.protocol.commands.messages import SendMessages
from borzoi.protocol.framing import encode_request
from borzoi.records.message import Message, encode_messages

FIRST_PARTITION = Partitioning.partition(0)


def send_of(
    *messages: Message | bytes,
    stream: Identifier = "s",
    topic: Identifier = "t",
    partitioning: Partitioning = FIRST_PARTITION,
) -> SendMessages:
    """A send of these messages, or of one for each payload. Its bytes are writable, as received."""
    made = [one if isinstance(one, Message) else Message(one) for one in messages]
    indexes, body = encode_messages(made)
    views = memoryview(bytearray(indexes)), memoryview(bytearray(body))
    return SendMessages(stream, topic, partitioning, len(made), *views)


def numbered_send(count: int, size: int) -> SendMessages:
    """A send of messages of `size` bytes, each of which is the number of the message."""
    return send_of(*(bytes([number % 256]) * size for number in range(count)))


def send_frame(*messages: Message | bytes) -> bytes:
    return encode_request(send_of(*messages))
