"""The client: what a program needs to talk to a server, on an event loop or with blocking calls.

Used by programs, the command line, the console and Spark; uses `borzoi.protocol` and
`borzoi.records`, which the server uses as well. It must run without the server installed, so it
imports nothing from the server. The names below are the public API; the modules are not.
"""

from borzoi.client._async.client import AsyncClient
from borzoi.client._async.consumer import AsyncConsumer
from borzoi.client._async.producer import AsyncProducer
from borzoi.client._colours import AsyncOutcome, Outcome
from borzoi.client._sync.client import Client
from borzoi.client._sync.consumer import Consumer
from borzoi.client._sync.producer import Producer
from borzoi.client.codecs import BYTES, JSON, TEXT, Codec, UndecodableMessage, codec_of
from borzoi.client.messages import Message, NewMessage, Polled, ValueMessage
from borzoi.client.options import Address, Options, Password, Reconnection, Tls, Token
from borzoi.client.reading import read
from borzoi.records.user_headers import HeaderKind, HeaderValue

__all__ = [
    "BYTES",
    "JSON",
    "TEXT",
    "Address",
    "AsyncClient",
    "AsyncConsumer",
    "AsyncOutcome",
    "AsyncProducer",
    "Client",
    "Codec",
    "Consumer",
    "HeaderKind",
    "HeaderValue",
    "Message",
    "NewMessage",
    "Options",
    "Outcome",
    "Password",
    "Polled",
    "Producer",
    "Reconnection",
    "Tls",
    "Token",
    "UndecodableMessage",
    "ValueMessage",
    "codec_of",
    "read",
]
