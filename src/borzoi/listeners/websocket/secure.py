"""WebSocket over TLS: the connection of `listeners/tls.py` with frames in between."""

import asyncio
from typing import Unpack

from borzoi.listeners.accepting import Peer
from borzoi.listeners.binary import Reply
from borzoi.listeners.interface import ByteStreamArguments
from borzoi.listeners.tls import TlsConnection, TlsListener
from borzoi.listeners.websocket.dialogue import HANDSHAKE_SECONDS_MAX, Dialogue
from borzoi.model.system import TransportKind
from borzoi.protocol.websocket.frames import Limits


class SecureWebSocketConnection(TlsConnection):
    """One accepted connection."""

    def __init__(self, listener: TlsListener, peer: Peer, limits: Limits) -> None:
        super().__init__(listener, peer)
        self._limits = limits
        self._dialogue: Dialogue | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        limits, listener = self._limits, self._listener
        assert self.conversation is not None
        self._dialogue = Dialogue(
            limits, self.conversation, send=super().send, read=self._read, opened=listener.opened
        )
        listener.loop.call_later(HANDSHAKE_SECONDS_MAX, self._give_up_greeting)

    def data_received(self, data: bytes) -> None:
        self.progressed_at = self._listener.loop.time()
        conversation, dialogue = self.conversation, self._dialogue
        if dialogue is not None and conversation is not None and not conversation.ended:
            # The transport's bytes are read-only and cannot be unmasked in place.
            dialogue.arrived(memoryview(bytearray(data)))
            if conversation.inside_frame or dialogue.is_unfinished:
                self._acknowledge()

    def _read(self, reads: bool) -> None:
        if not reads:
            self.pause_reading()
        elif self.conversation is not None and self.conversation.takes_input:
            self.resume_reading()

    def resume_reading(self) -> None:
        if self._dialogue is None or not self._dialogue.waits_for_its_turn:
            super().resume_reading()

    def _give_up_greeting(self) -> None:
        if self._dialogue is not None and not self._dialogue.is_open:
            self.give_up("it asked for no WebSocket")

    def send(self, reply: Reply) -> None:
        if self._dialogue is not None:
            self._dialogue.say(reply)

    def pause_writing(self) -> None:
        super().pause_writing()
        # Otherwise a client that reads nothing could queue any number of pongs.
        self.pause_reading()

    def finish(self) -> None:
        if self._dialogue is not None:
            self._dialogue.say_goodbye()
        super().finish()

    def stalled(self, before: float) -> bool:
        unfinished = self._dialogue is not None and self._dialogue.is_unfinished
        return super().stalled(before) or (unfinished and self.progressed_at < before)


class SecureWebSocketListener(TlsListener):
    """Accepts WebSocket connections over TLS and keeps them until they end."""

    transport = TransportKind.WEBSOCKET

    def __init__(self, *, limits: Limits, **shared: Unpack[ByteStreamArguments]) -> None:
        super().__init__(**shared)
        self._limits = limits

    def _connection(self, peer: Peer) -> TlsConnection:
        return SecureWebSocketConnection(self, peer, self._limits)

    def welcomed(self, connection: TlsConnection) -> None:
        self.connections.add(connection)
