"""The client: what a program needs to talk to a server, on an event loop or with blocking calls.

Handed work by programs, the command line, the console and Spark; hands work to `borzoi.protocol`
and `borzoi.records`, which the server uses as well. It is installed where no server is: nothing of
the server may be imported here. The names below are its public face; modules may change.
"""

from borzoi.client._async.client import AsyncClient
from borzoi.client._sync.client import Client
from borzoi.client.messages import Message, NewMessage, Polled
from borzoi.client.options import Address, Options, Password, Reconnection, Tls, Token

__all__ = [
    "Address",
    "AsyncClient",
    "Client",
    "Message",
    "NewMessage",
    "Options",
    "Password",
    "Polled",
    "Reconnection",
    "Tls",
    "Token",
]
