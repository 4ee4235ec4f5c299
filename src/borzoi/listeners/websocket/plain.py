"""WebSocket over raw sockets: a TCP connection with frames between the socket and the conversation.

Frames of a server are not masked, so an answer is a head and the same bytes as over TCP: stored
messages leave by `sendfile` here as well.
"""

import socket
from time import monotonic
from typing import Unpack

from borzoi.handlers.sessions import Session
from borzoi.listeners.accepting import WOULD_BLOCK
from borzoi.listeners.acknowledging import acknowledge, may_be_held_back
from borzoi.listeners.binary import Reply
from borzoi.listeners.connection import Conversation
from borzoi.listeners.interface import ByteStreamArguments, Detached
from borzoi.listeners.sockets import SocketOptions
from borzoi.listeners.tcp import TcpConnection, TcpListener
from borzoi.listeners.websocket.dialogue import HANDSHAKE_SECONDS_MAX, Dialogue
from borzoi.model.system import TransportKind
from borzoi.protocol.websocket.frames import Limits


class WebSocketConnection(TcpConnection):
    """One accepted socket."""

    __slots__ = ("_dialogue",)

    def __init__(
        self, listener: TcpListener, sock: socket.socket, session: Session, limits: Limits
    ) -> None:
        super().__init__(listener, sock, session)
        self._dialogue = Dialogue(
            limits, self.conversation, send=super().send, read=self._read, opened=listener.opened
        )
        listener.loop.call_later(HANDSHAKE_SECONDS_MAX, self._give_up_greeting)

    def _on_readable(self) -> None:
        conversation = self.conversation
        try:
            count = self._receive(conversation)
        except WOULD_BLOCK:
            return
        except Exception as fault:
            self._lose(fault)
            return
        if count:
            self.progressed_at = now = monotonic()
            self._listener.busy_poll.touch(now)
            if self._is_held_back(conversation) and self._sock.fileno() >= 0:
                acknowledge(self._sock)
        elif conversation.input_ended():
            self.pause_reading()  # EOF stays readable
        else:
            self._close()

    def _receive(self, conversation: Conversation) -> int:
        """Receive into the right buffer; return the byte count, 0 at EOF."""
        frames, target = self._dialogue.frames, conversation.wanted
        if target is not None and frames.stream_bytes_next:
            target = target[: frames.stream_bytes_next]
            count = self._sock.recv_into(target)
            if count:
                frames.take(target[:count])
                conversation.filled(count)
            return count
        scratch = self._listener.scratch
        count = self._sock.recv_into(scratch)
        if count:
            self._dialogue.arrived(scratch[:count])
        return count

    def _is_held_back(self, conversation: Conversation) -> bool:
        """Whether the client may hold back the rest of a WebSocket frame or of a request."""
        if conversation.inside_frame or self._dialogue.is_unfinished:
            return may_be_held_back(conversation.wanted)
        return False

    def _read(self, reads: bool) -> None:
        if not reads:
            self.pause_reading()
        elif self.conversation.takes_input:
            self.resume_reading()

    def resume_reading(self) -> None:
        if not self._dialogue.waits_for_its_turn:
            super().resume_reading()

    def _give_up_greeting(self) -> None:
        if not self._dialogue.is_open and self._sock.fileno() >= 0:
            self.give_up("it asked for no WebSocket")

    @property
    def is_unfinished(self) -> bool:
        return super().is_unfinished or self._dialogue.is_unfinished

    def send(self, reply: Reply) -> None:
        self._dialogue.say(reply)

    def _wait_for_room(self) -> None:
        super()._wait_for_room()
        # Otherwise a client that reads nothing could queue any number of pongs.
        self.pause_reading()

    def detach(self) -> Detached | None:
        return None  # an incomplete WebSocket frame cannot move

    def finish(self) -> None:
        self._dialogue.say_goodbye()
        super().finish()


class WebSocketListener(TcpListener):
    """Accepts WebSocket connections and keeps them until they end."""

    transport = TransportKind.WEBSOCKET

    def __init__(
        self,
        sock: socket.socket,
        *,
        limits: Limits,
        **shared: Unpack[ByteStreamArguments],
    ) -> None:
        self._limits = limits
        super().__init__(sock, options=SocketOptions(), **shared)

    def _connection(self, sock: socket.socket, session: Session) -> TcpConnection:
        return WebSocketConnection(self, sock, session, self._limits)
