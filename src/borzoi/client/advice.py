"""What a status means for the program that gets it: the cause, and what to do about it.

``tools/error_catalogue.py`` generates ``docs/errors.md`` from it and `borzoi.protocol.errors`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from borzoi.model.errors import BorzoiError
from borzoi.protocol.errors import error_of, row_of


class Advice(NamedTuple):
    cause: str
    fix: str


#: Status → cause and remedy. A status that is missing here is an internal error of the server.
ADVICE: Final[Mapping[int, Advice]] = MappingProxyType(
    {
        2: Advice("the server's configuration is wrong", "correct it and start the server again"),
        3: Advice(
            "the server does not know the command, or cannot read it",
            "compare the versions of client and server",
        ),
        4: Advice("a field is malformed: an empty name, a bad length", "correct the argument"),
        5: Advice(
            "the server, or this client, cannot do that", "see the documentation of versions"
        ),
        6: Advice("a name or number of a stream or topic has a wrong form", "correct the argument"),
        7: Advice("the peer does not speak this protocol", "check the address and the port"),
        8: Advice("the server ended the connection", "nothing: the client connects again"),
        9: Advice("no connection could be made", "check the address, and start the server"),
        20: Advice("there is no such user or token", "check the name"),
        30: Advice(
            "the server heard no heartbeat for too long", "nothing: the client connects again"
        ),
        31: Advice("the connection failed", "nothing: the client connects again"),
        40: Advice("not logged in", "put credentials into the connection string, or log in"),
        41: Advice("the user may not do that", "ask for the permission, or log in as another user"),
        42: Advice("user name or password is wrong", "correct the credentials"),
        43: Advice("a user name has 3 to 50 bytes", "choose another name"),
        44: Advice("a password has 3 to 100 bytes", "choose another password"),
        46: Advice("a user with this name exists", "choose another name"),
        47: Advice("the user is inactive", "have it activated with update_user"),
        48: Advice("the root user cannot be deleted", "deactivate it, or change its password"),
        49: Advice("the permissions of root cannot be changed", "create another user"),
        50: Advice("the name of a token has 3 to 30 bytes", "choose another name"),
        51: Advice("a token with this name exists", "choose another name, or delete the old one"),
        52: Advice("the user has reached the limit of tokens", "delete one that is not needed"),
        53: Advice("the token is not valid", "create a new one"),
        54: Advice("the token has expired", "create a new one"),
        55: Advice("the server has reached the limit of users", "delete one that is not needed"),
        61: Advice("there is no connection", "nothing: the client connects again"),
        63: Advice("the client was closed by its own program", "create a new one"),
        80: Advice("a value is too large for its field", "use a smaller one"),
        82: Advice("a number does not fit its field", "use a smaller one"),
        100: Advice("there is no connection with this id", "look at get_clients"),
        101: Advice("0 is no id of a connection", "look at get_clients"),
        1009: Advice("there is no such stream", "create it with create_stream or ensure_topic"),
        1012: Advice("a stream with this name exists", "use it, or choose another name"),
        1013: Advice("the name of a stream has 1 to 255 bytes", "choose another name"),
        1019: Advice(
            "the topic size is below the segment size", "choose a larger one, or unlimited"
        ),
        2010: Advice("there is no such topic", "create it with create_topic or ensure_topic"),
        2013: Advice("the stream has a topic with this name", "use it, or choose another name"),
        2014: Advice("the name of a topic has 1 to 255 bytes", "choose another name"),
        2015: Advice("1 to 1000 partitions can be created at once", "create them in several steps"),
        2018: Advice("the replication factor is not supported", "leave it out"),
        2019: Advice("the topic has fewer partitions", "look at get_topic"),
        3007: Advice("the topic has no such partition", "see get_topic: partitions count from 0"),
        3008: Advice("the topic has no partitions", "add some with create_partitions"),
        3009: Advice("the topic is full", "let messages expire, or give it a larger size"),
        3021: Advice("no offset is stored", "nothing: reading starts at the first message"),
        3022: Advice("the group has given the partition to another member", "use your own"),
        4000: Advice("there is no such segment", "look at get_topic"),
        4009: Advice("a batch has no messages", "send at least one"),
        4017: Advice("the headers of a message have more than 100 000 bytes", "shorten them"),
        4018: Advice("the key of a header has 1 to 255 bytes", "choose another key"),
        4019: Advice("the value of a header does not fit its kind", "correct the value"),
        4022: Advice("a payload has more than 64 000 000 bytes", "send it in pieces"),
        4025: Advice("the lengths of a message contradict each other", "report it: it is a defect"),
        4027: Advice("stored messages are damaged", "run borzoi log verify on the server"),
        4028: Advice("a key has 1 to 255 bytes", "choose another key"),
        4036: Advice("a batch is too large", "send fewer messages at once"),
        4040: Advice("a header has an unknown kind", "check the program that sends it"),
        4053: Advice("the buffer of the producer is full", "send more slowly, or make it larger"),
        4057: Advice("the producer was closed by its own program", "create a new one"),
        4100: Advice("the partition has no such offset yet", "store offsets of received messages"),
        5000: Advice("there is no such group", "create it with create_consumer_group"),
        5004: Advice("the topic has a group with this name", "join it, or choose another name"),
        5005: Advice("the name of a group has 1 to 255 bytes", "choose another name"),
        5006: Advice("this connection is not a member of the group", "join it first"),
        8000: Advice("the connection string is wrong", "correct it: the message says where"),
        11001: Advice(
            "a process of the server died and is being replaced",
            "retry; the request may have been executed",
        ),
        12001: Advice("the request timed out", "try again, or allow more time with timeout="),
        13000: Advice("the server could not read or write its files", "check its log and its disk"),
    }
)


def error_answered(status: int, request: str, said: bytes | memoryview = b"") -> BorzoiError:
    """The exception for a request that the server answered with this status; over HTTP it also
    says why in its own words."""
    words = bytes(said).decode("utf-8", "replace").rstrip(".")
    advice = ADVICE.get(status)
    if advice is None:
        return error_of(status, f"{request}: {words or row_of(status).sentence.lower()}")
    return error_of(status, f"{request}: {words or advice.cause}; {advice.fix}")
