"""What a conversation needs from the connection it runs over."""

from typing import Final, Protocol

from borzoi.listeners.binary import Reply


class Output(Protocol):
    """Where a conversation sends its answers, and how it stops the input."""

    def send(self, reply: Reply) -> None:
        """Send, or queue and set `Conversation.blocked`."""

    def finish(self) -> None:
        """Close once everything handed to `send` has left."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class ClosedOutput:
    """The output of a lost conversation: it does nothing and keeps nothing alive."""

    def send(self, reply: Reply) -> None: ...

    def finish(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


CLOSED: Final = ClosedOutput()
