"""Large frames: refused before they take memory, or admitted when there is room.

::

    Step        what the conversation does with the frame
    RECEIVE     receive it: it was admitted
    AUTHORISE   receive only its metadata and ask again
    WAIT        keep its first bytes until there is room for it (`listeners/unfinished.py`)
    DISCARD     discard it as it arrives, and answer with `refusal` at its end
    END         answer with `refusal` and close: the rest is too much to discard

A large send gets no memory before its sender is authorised, so its metadata is received first.
"""

from collections.abc import Callable
from enum import Enum, auto
from typing import Final

from borzoi.handlers.sessions import Session
from borzoi.listeners.binary import BinaryProtocol, Reply, failed
from borzoi.memory.pool import Payload
from borzoi.model.limits import BATCH_BYTES_MAX, CONTROL_PAYLOAD_BYTES_MAX
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.messages import SEND_METADATA_BYTES_MAX
from borzoi.protocol.errors import INVALID_COMMAND, UNAUTHENTICATED
from borzoi.protocol.framing import CODE_BYTES, REQUEST_PREFIX

SEND_MESSAGES: Final = int(Code.SEND_MESSAGES)


class FrameStep(Enum):
    RECEIVE = auto()
    AUTHORISE = auto()
    WAIT = auto()
    DISCARD = auto()
    END = auto()


class LargeFrame:
    """One large frame of a conversation, from its prefix to the end of its request."""

    __slots__ = ("_binary", "_go_on", "_has_room", "code", "is_announced", "refusal", "size")

    def __init__(self, binary: BinaryProtocol, code: int, size: int) -> None:
        self._binary = binary
        self.code = code
        self.size = size
        #: Only its metadata is being received.
        self.is_announced = False
        #: The answer to a frame that is not let in.
        self.refusal: Reply = b""
        self._has_room = False
        #: What to call when there is room, while it waits for that.
        self._go_on: Callable[[], None] | None = None

    @property
    def prefix(self) -> bytes:
        return REQUEST_PREFIX.pack(self.size + CODE_BYTES, self.code)

    def next_step(self, session: Session, first: memoryview) -> FrameStep:
        """What to do with the frame, of which the first bytes are there."""
        is_send = self.code == SEND_MESSAGES
        if self.size > (BATCH_BYTES_MAX if is_send else CONTROL_PAYLOAD_BYTES_MAX):
            self.refusal = failed(INVALID_COMMAND)
            return FrameStep.END
        if session.user_id is None:
            public = self._binary.dispatcher.is_public(self.code)
            return self._refused(failed(INVALID_COMMAND if public else UNAUTHENTICATED))
        if is_send:
            if len(first) < SEND_METADATA_BYTES_MAX:
                return FrameStep.AUTHORISE
            refusal = self._binary.refusal_of_send(session, first, self.size)
            if refusal is not None:
                return self._refused(refusal)
        if not self._has_room:
            self._has_room = self._binary.unfinished.enter(self.size)
        return FrameStep.RECEIVE if self._has_room else FrameStep.WAIT

    def _refused(self, answer: Reply) -> FrameStep:
        self.leave()
        self.refusal = answer
        return FrameStep.DISCARD

    def begin_metadata(self, first: memoryview) -> Payload:
        """Where to receive the metadata of a send, with the bytes that are there already."""
        self.is_announced = True
        frame = Payload(memoryview(bytearray(SEND_METADATA_BYTES_MAX)))
        frame.view[: len(first)] = first
        return frame

    def announced(self, metadata: memoryview) -> memoryview:
        """The frame as it begins, with its whole metadata."""
        self.is_announced = False
        return memoryview(self.prefix + metadata)

    def wait(self, go_on: Callable[[], None]) -> None:
        """Call `go_on` in a later turn, when there is room."""
        self._go_on = go_on
        self._binary.unfinished.wait(self.size, self._room_came)

    def _room_came(self) -> None:
        go_on, self._go_on = self._go_on, None
        if go_on is None:
            # The connection was lost between the admission and this turn.
            self._binary.unfinished.leave(self.size)
        else:
            self._has_room = True
            go_on()

    def leave(self) -> None:
        """Release the room of the frame, or its place among those that wait for room."""
        if self._has_room:
            self._has_room = False
            self._binary.unfinished.leave(self.size)
        elif self._go_on is not None:
            self._go_on = None
            self._binary.unfinished.forget(self._room_came)
