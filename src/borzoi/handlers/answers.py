"""What `Dispatcher.perform` returns: values, before any transport encodes them.

::

    None        the command has nothing to report: create, delete, send, ping
    Response    a value of `protocol/commands/`: it has `encode`
    Delivery    the answer to a poll: where the stored messages are, not the messages
    Answered    the client has its answer, which another shard has sent
"""

from typing import TypeAlias

from borzoi.model.value import Value
from borzoi.protocol.contract import Response
from borzoi.shard.client_socket import Answered
from borzoi.storage.reading import Reading


class Delivery(Value):
    """Polled messages.

    `reading.ranges` lie in files and are sent with `sendfile` where the transport can;
    `reading.tail` holds the rest, and follows them. `reading.materialise()` reads all of it.
    Holding the value keeps its files open and its views valid.
    """

    partition_id: int
    #: Offset of the partition's last message; 0 also when it never had one.
    current_offset: int
    reading: Reading


Answer: TypeAlias = Response | Delivery | Answered | None

#: For a group member that has no partition. Clients of 0.8 cannot read an empty payload here.
NOTHING_DELIVERED = Delivery(0, 0, Reading())
