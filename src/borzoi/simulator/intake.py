"""What reaches the process of one node: frames of others, calls of clients, and finished writes.

The counterpart of the outputs: here everything that comes from outside becomes an input of a
replica, or is refused before it becomes a value.
"""

from collections import deque
from typing import Any, Final, Protocol

from borzoi.consensus.frames import LAYOUTS, FrameRefused, decode_frame
from borzoi.consensus.messages import Header, Reply
from borzoi.simulator.auditor import Violation
from borzoi.simulator.network import Corrupted
from borzoi.simulator.outputs import Process
from borzoi.simulator.service import NodeCall, ReadCall, RunContext, Service
from borzoi.simulator.strangers import Foreign
from borzoi.simulator.trace import describe

BACKLOG_MAX: Final = 256
# Frames without a group in their header are about the node; its control group handles them.
OF_THE_NODE: Final = frozenset(
    layout.header for layout in LAYOUTS.values() if "namespace" not in layout.header._fields
)


class Stoppable(Process, Protocol):
    """The node as its intake sees it: while stopped, it accepts nothing."""

    paused_until: int


class Intake:
    """One node's sockets and completions, at the pace of its processor."""

    __slots__ = ("_auditor", "_paced", "_process", "_service", "_trace", "backlog", "pace")

    def __init__(self, process: Stoppable, around: RunContext, service: Service) -> None:
        self._process = process
        self._service = service
        # Kept in attributes because every frame needs them.
        self._trace = around.trace
        self._auditor = around.auditor
        # Frames a slow processor has no time for yet; `pace` is how many it takes in a tick.
        self.pace = 0
        self._paced = 0
        self.backlog: deque[tuple[int, Any]] = deque()

    # -- the network -------------------------------------------------------------------------------

    def receive(self, source: int, frame: Any) -> None:
        process = self._process
        if not process.replicas:
            return
        if process.paused_until:
            process.held(self.receive, (source, frame))
            return
        if self.pace:
            if self._paced >= self.pace or self.backlog:
                # The buffer of a socket is bounded; what does not fit is lost with its connection.
                if len(self.backlog) < BACKLOG_MAX:
                    self.backlog.append((source, frame))
                return
            self._paced += 1
        if type(frame) is tuple:
            self._take_frame(source, frame)
        else:
            self._take(source, frame)

    def work_off(self) -> None:
        """A slow processor takes the oldest frames first, and a limited number per tick."""
        self._paced = 0
        process = self._process
        while self.backlog and process.replicas and (not self.pace or self._paced < self.pace):
            self._paced += 1
            self._take(*self.backlog.popleft())

    def _take(self, source: int, frame: Any) -> None:
        kind = type(frame)
        if kind is tuple:
            self._take_frame(source, frame)
        elif kind is bytes:
            self._take_frame(source, self._decode(frame))
        elif kind is NodeCall:
            if self._trace.enabled:
                asked = f"<- client {source} {frame.operation} request {frame.request}"
                self._process.say(frame.group, asked)
            self._service.call(source, frame)
        elif kind is ReadCall:
            self._service.read(source, frame)
        else:
            self._refuse(frame)

    def _take_frame(self, source: int, frame: tuple[Any, bytes]) -> None:
        process = self._process
        header = frame[0]
        kind = type(header)
        group: int = 0 if kind in OF_THE_NODE else header.namespace
        if self._trace.enabled:
            process.say(group, f"<- {source} {describe(header)}")
        if kind is Reply:
            self._service.relaying = True
        process.input(group, process.replicas[group].on_frame, frame)
        if kind is Reply:
            self._service.relaying = False

    def _refuse(self, frame: Corrupted | Foreign) -> None:
        """What is not as a replica sent it must not become a value."""
        data: Any
        if isinstance(frame, Foreign):
            data, what = frame.data, frame.what
        else:
            data, what = frame.frame, "a wrong bit"
            if type(data) is not bytes:
                return
            position = int(frame.spot * len(data))
            data = data[:position] + bytes([data[position] ^ 32]) + data[position + 1 :]
        try:
            self._decode(data)
        except FrameRefused:
            self._auditor.counters[f"frame refused: {what}"] += 1
            return
        raise Violation("frames", f"replica {self._process.number} takes a frame with {what}")

    def _decode(self, frame: bytes) -> tuple[Header, bytes]:
        config = self._process.configs[0]
        return decode_frame(frame, config.cluster, config.replica_count)

    # -- the disk ----------------------------------------------------------------------------------

    def completed(self, group: int, what: str, token: int) -> None:
        """The disk finished a write."""
        process = self._process
        if process.paused_until:
            process.held(self.completed, (group, what, token))
            return
        replica = process.replicas[group]
        if self._trace.enabled:
            process.say(group, f"synced {what} {token}")
        if what == "journal":
            process.input(group, replica.on_written, (token,))
        elif what == "superblock":
            process.input(group, replica.on_superblock_written, (token,))
        else:
            process.input(group, replica.on_checkpoint_written, (token,))
