"""The main process of a server with several shards: it starts, watches and stops them.

It holds the lock of the data directory and opens nothing else in it; `supervision.py` decides how
to react to an event. The shards are spawned, not forked, so that none inherits state, and they die
with the supervisor: killing it kills the whole server.
"""

import contextlib
import logging
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from typing import Final, Self

import msgspec

from borzoi import __version__
from borzoi.server import exit_statuses
from borzoi.server.control_messages import (
    Addresses,
    Begin,
    Drained,
    PeerJoined,
    Ready,
    StopAsked,
    ToShard,
    control_pair,
    decode_to_supervisor,
    encode,
    receive,
    send,
)
from borzoi.server.data_directory import DataDirectory
from borzoi.server.declaring import shown_section
from borzoi.server.launching import Start
from borzoi.server.settings import Settings
from borzoi.server.signals import STOPPING, StopRequested, hold_back, let_through
from borzoi.server.supervision import Effect, Kill, Launch, OperatorReport, Supervision, Tell

log = logging.getLogger(__name__)

#: The module that a shard runs.
SHARD_MODULE: Final = "borzoi.server.shard_process"
#: A shard with this many unread messages has hung.
PENDING_MAX: Final = 1024


def supervise(start: Start, directory: DataDirectory) -> int:
    """Serve with several processes until a stop is requested; return the exit status."""
    with Supervisor(start, directory.lock) as supervisor:
        return supervisor.run()


class ShardProcess(msgspec.Struct):
    """A shard that was started and has not ended, as far as we know."""

    process: subprocess.Popen[bytes]
    control: socket.socket
    #: Its memory file, for shards that are started later.
    arena: int
    #: Unsent messages, with descriptors that we own.
    pending: deque[tuple[bytes, tuple[int, ...]]]

    def close(self) -> None:
        self.control.close()
        os.close(self.arena)
        for _, descriptors in self.pending:
            _close_all(descriptors)


class Supervisor:
    """Carries out what `Supervision` decides, and reports events to it."""

    def __init__(self, start: Start, lock: int, *, command: Sequence[str] | None = None) -> None:
        self._start = start
        self._lock = lock
        self._command = command or [sys.executable, "-P", "-m", SHARD_MODULE]
        settings = start.configuration.settings
        count = len(start.placement.seats)
        self._supervision = Supervision(count, restart=settings.supervisor.restart)
        self._shards: dict[int, ShardProcess] = {}
        self._selector = selectors.DefaultSelector()
        self._signal_sink, self._signal_source = socket.socketpair()
        #: What requested the stop, for the log.
        self._stopped_by = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for shard in self._shards.values():
            shard.process.kill()
            shard.process.wait()
            shard.close()
        self._selector.close()
        self._signal_sink.close()
        self._signal_source.close()

    def run(self) -> int:
        """Run until every shard has ended."""
        self._take_signals()
        effects = self._supervision.begin()
        while True:
            self._carry_out(effects)
            status = self._supervision.exit_status
            if status is not None:
                break
            effects = self._awaited()
        if status == exit_statuses.OK and not self._supervision.was_ready:
            raise StopRequested(self._stopped_by)
        return status

    # ---- what happens ---------------------------------------------------------------------------

    def _take_signals(self) -> None:
        """Receive signals as bytes in a socket from now on."""
        self._signal_sink.setblocking(False)
        self._signal_source.setblocking(False)
        hold_back()
        for number in (*STOPPING, signal.SIGHUP, signal.SIGUSR1, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(self._signal_source.fileno(), warn_on_full_buffer=False)
        self._selector.register(self._signal_sink, selectors.EVENT_READ, None)
        let_through()

    def _awaited(self) -> list[Effect]:
        """Wait for an event; return its effects."""
        due = self._supervision.due
        timeout = None if due is None else max(due - time.monotonic(), 0)
        effects: list[Effect] = []
        for key, events in self._selector.select(timeout):
            number = key.data
            if number is None:
                effects += self._signals()
            elif number in self._shards:
                if events & selectors.EVENT_WRITE:
                    self._flush(number)
                if events & selectors.EVENT_READ:
                    effects += self._received(number)
        return [*effects, *self._supervision.elapsed(now=time.monotonic())]

    def _signals(self) -> list[Effect]:
        effects: list[Effect] = []
        with contextlib.suppress(BlockingIOError):
            for number in dict.fromkeys(self._signal_sink.recv(4096)):
                match number:
                    case signal.SIGCHLD:
                        effects += self._ended()
                    case signal.SIGHUP:
                        log.warning("SIGHUP is ignored: settings are read at a start only")
                    case signal.SIGUSR1:
                        for shard in self._shards.values():
                            shard.process.send_signal(signal.SIGUSR1)
                    case _:
                        effects += self._stop(signal.Signals(number).name)
        return effects

    def _stop(self, why: str) -> list[Effect]:
        self._stopped_by = self._stopped_by or why
        return self._supervision.stop(now=time.monotonic())

    def _received(self, number: int) -> list[Effect]:
        """Handle a message of a shard; its end is reported by the system, not by its socket."""
        shard = self._shards[number]
        try:
            packet, _ = receive(shard.control)
        except BlockingIOError:
            return []
        except ConnectionError:
            packet = b""
        if not packet:
            self._selector.unregister(shard.control)
            return []
        match decode_to_supervisor(packet):
            case Ready(addresses):
                return self._supervision.ready(number, addresses)
            case StopAsked():
                return self._stop(f"a signal to shard {number}")
            case Drained():
                return self._supervision.drained(number)

    def _ended(self) -> list[Effect]:
        """Reap ended processes."""
        effects: list[Effect] = []
        for number, shard in list(self._shards.items()):
            status = shard.process.poll()
            if status is not None:
                self._forget(number)
                effects += self._supervision.ended(number, status, now=time.monotonic())
        return effects

    def _forget(self, number: int) -> None:
        shard = self._shards.pop(number)
        if shard.control in self._selector.get_map():
            self._selector.unregister(shard.control)
        shard.close()

    # ---- what is done about it ------------------------------------------------------------------

    def _carry_out(self, effects: list[Effect]) -> None:
        waiting = deque(effects)
        while waiting:
            match waiting.popleft():
                case Launch(number, first_start):
                    waiting += self._launched(number, first_start)
                case Tell(number, message):
                    self._tell(number, message)
                case Kill(number):
                    # It may have ended since this was decided.
                    if number in self._shards:
                        self._shards[number].process.kill()
                case OperatorReport(text, is_fault):
                    log.log(logging.ERROR if is_fault else logging.INFO, "%s", text)

    def _launched(self, number: int, first_start: bool) -> list[Effect]:
        try:
            self._launch(number, first_start)
        except OSError:
            log.exception("shard %d cannot be started", number)
            now = time.monotonic()
            return self._supervision.ended(number, exit_statuses.CANNOT_START, now=now)
        return []

    def _launch(self, number: int, first_start: bool) -> None:
        """Start the process of a shard, and connect it with the live ones."""
        arena = os.memfd_create(f"borzoi-shard-{number}", os.MFD_CLOEXEC)
        ours, theirs = control_pair()
        # Block signals to the process group until the child can handle them.
        hold_back()
        try:
            process = subprocess.Popen(  # noqa: S603 - our own program
                [*self._command, str(theirs.fileno()), str(self._lock), f"shard-{number}"],
                pass_fds=(theirs.fileno(), self._lock),
                stdin=subprocess.DEVNULL,
            )
        except OSError:
            ours.close()
            os.close(arena)
            raise
        finally:
            theirs.close()
            let_through()
        ours.setblocking(False)
        self._selector.register(ours, selectors.EVENT_READ, number)
        others = list(self._shards)
        self._shards[number] = ShardProcess(process, ours, arena, deque())
        count = len(self._start.placement.seats)
        peers = count - 1 if first_start else len(others)
        self._tell(number, self._begin(number, peers, first_start), os.dup(arena))
        for other in others:
            here, there = socket.socketpair()
            self._tell(number, PeerJoined(other), here.detach(), os.dup(self._shards[other].arena))
            self._tell(other, PeerJoined(number), there.detach(), os.dup(arena))

    def _begin(self, number: int, peers: int, first_start: bool) -> Begin:
        configuration = self._start.configuration
        settings = configuration.settings
        if not first_start and self._supervision.addresses is not None:
            settings = with_addresses(settings, self._supervision.addresses)
        seats = self._start.placement.seats
        return Begin(
            version=__version__,
            shard=number,
            count=len(seats),
            supervisor=os.getpid(),
            peers=peers,
            seat=seats[number],
            settings=shown_section(settings, secrets=True),
            source=configuration.source,
            overrides=configuration.overrides,
            # Once is enough.
            warnings=configuration.warnings if number == 0 and first_start else (),
            default_credentials=self._start.default_credentials,
            follower=self._start.follower,
            first_start=first_start,
        )

    def _tell(self, number: int, message: ToShard, *descriptors: int) -> None:
        """Send a message, now or when the socket is writable; its descriptors are closed then."""
        shard = self._shards.get(number)
        if shard is None:
            # It died since this was decided.
            _close_all(descriptors)
            return
        shard.pending.append((encode(message), descriptors))
        self._flush(number)
        if len(shard.pending) > PENDING_MAX:
            log.error("shard %d has hung; killing it", number)
            shard.process.kill()

    def _flush(self, number: int) -> None:
        """Send pending messages until the socket would block."""
        shard = self._shards[number]
        while shard.pending:
            packet, descriptors = shard.pending[0]
            try:
                send(shard.control, packet, descriptors)
            except BlockingIOError:
                break
            except OSError:
                # It has died; its end is reported separately.
                log.debug("shard %d accepts no message", number, exc_info=True)
            shard.pending.popleft()
            _close_all(descriptors)
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if shard.pending else 0)
        if shard.control in self._selector.get_map():
            self._selector.modify(shard.control, events, number)


def with_addresses(settings: Settings, addresses: Addresses) -> Settings:
    """Return the settings with the bound ports."""
    for name, address in addresses.items():
        section = getattr(settings, name).replaced(address=tuple(address))
        settings = settings.replaced(**{name: section})
    return settings


def _close_all(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
