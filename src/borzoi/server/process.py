"""One server process, from its settings to its end: open, listen, serve, stop.

The order of a start: lock the data directory, open what is stored, listen, and only then write
`runtime/current_config.toml`, because people and test harnesses take that file as the sign that
every listener accepts. The order of a stop: refuse new connections, finish running requests, notify
the clients, save and sync, close.
"""

import asyncio
import ctypes
import gc
import logging
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import uvloop

from borzoi import __version__
from borzoi.archive.interface import Archive
from borzoi.handlers.call import Services
from borzoi.handlers.dispatch import Dispatcher
from borzoi.handlers.sessions import Session
from borzoi.listeners.binary import BinaryProtocol, failed
from borzoi.listeners.interface import Listener
from borzoi.memory.pool import MemoryPool
from borzoi.metadata.groups import ClientGone
from borzoi.metadata.proposals import Proposal
from borzoi.model.errors import InvalidConfiguration, StorageFailure
from borzoi.model.identifiers import ROOT_USER_ID
from borzoi.model.namespace import Namespace
from borzoi.records.accelerator import ACCELERATOR
from borzoi.server import exit_statuses
from borzoi.server.assembly import (
    POOL_KEEP_BYTES,
    Opened,
    OpenedShard,
    clock,
    open_data,
    services_of,
    store_new_root,
)
from borzoi.server.banner import Readiness, banner
from borzoi.server.config import parts_not_there
from borzoi.server.data_directory import DataDirectory
from borzoi.server.declaring import shown_section
from borzoi.server.housekeeping import Chore, run_all, shard_chores, writer_chores
from borzoi.server.kinds import shown_address
from borzoi.server.launching import Start
from borzoi.server.listening import Endpoint, ListeningContext, bind, close_all, listen
from borzoi.server.logs import remove_forgotten
from borzoi.server.opening import folders_of
from borzoi.server.seating import take_seat
from borzoi.server.settings import Settings
from borzoi.server.signals import hold_back, let_through, while_serving
from borzoi.server.state_copies import StateCopies
from borzoi.server.toml import written
from borzoi.shard.metadata_plane import MetadataPlane
from borzoi.shard.presence import Presence, PresenceKeeper
from borzoi.storage.local import NO_SPACE
from borzoi.telemetry.durations import Durations
from borzoi.telemetry.exposition import Family

log = logging.getLogger(__name__)

#: The whole stop, from the signal to the end of the process.
STOP_SECONDS_MAX = 10.0
#: How long clients have to read the farewell before their connections are closed.
GOODBYE_SECONDS_MAX = 0.5
GOODBYE_LOOKS = 50
#: How long chores have to clean up after cancellation.
CHORES_SECONDS_MAX = 2.0
#: A connection whose frame or answer does not move for this long is closed.
STALLED_SECONDS_MAX = 30.0
#: Status 8: the server shuts down; clients reconnect and retry.
FAREWELL = failed(8)
#: How often the delay of the loop is measured.
LAG_SECONDS = 0.5
CURRENT_CONFIG = "current_config.toml"
#: How often the list of partitions on the disk is written, if it has changed.
PRESENCE_INTERVAL = 60_000_000

#: The number of the setting in <malloc.h>.
M_MMAP_THRESHOLD = -3
LARGE_BLOCK_BYTES = 1 << 20


def serve_alone(start: Start, directory: DataDirectory) -> int:
    """Serve in this process until a stop is requested; return the exit status."""
    give_back_large_memory()
    for warning in take_seat(start.placement.seats[0]):
        log.warning("%s", warning)
    hold_back()
    return uvloop.run(_serve(start, directory.path))


def give_back_large_memory() -> None:
    """Make the C library return large blocks to the system as soon as they are freed.

    After the first freed block it would keep later ones of that size: the memory of a few logins
    (19 MiB each while a password is checked) would never be returned.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)


def open_started(start: Start, directory: Path, pool: MemoryPool | None = None) -> Opened:
    """Open the data of a server that starts, and log what is questionable about its settings."""
    for warning in start.configuration.warnings:
        log.warning("%s", warning)
    return open_data(
        start.configuration.settings,
        directory,
        environment=start.environment,
        default_credentials=start.default_credentials,
        pool=pool,
    )


async def _serve(start: Start, directory: Path) -> int:
    let_through()
    opened = open_started(start, directory)
    server = RunningServer(start, directory, opened)
    try:
        # Before the process can be noticed: a signal must never meet the default action.
        server.stop_on_signals()
        await server.listen()
        server.announce()
        # Everything created so far lives as long as the process: exempt it from collection.
        gc.collect()
        gc.freeze()
        return await server.serve()
    finally:
        await server.close()


class RunningServer:
    """The running server: its listeners, its chores, its end."""

    def __init__(self, start: Start, directory: Path, opened: OpenedShard) -> None:
        self._start = start
        self._settings: Settings = start.configuration.settings
        self._directory = directory
        self._opened = opened
        self._archiver: Archive | None = None
        self._archive_metrics: Callable[[], Iterable[Family]] = tuple
        if self._settings.system.backup.archiver.enabled:
            # Imported here: few servers have an archive.
            from borzoi.server.archiving import metered_archiver

            self._archiver, self._archive_metrics = metered_archiver(
                self._settings,
                directory,
                clock=clock,
                follows_state=not isinstance(opened, Opened),
            )
        self._state_copies: StateCopies | None = None
        presence: Presence | None = None
        if isinstance(opened, Opened):
            self._state_copies = StateCopies(directory, opened.state_log)
            presence = opened.presence
        self._config_file = directory / self._settings.system.runtime.path / CURRENT_CONFIG
        self._sockets: dict[str, socket.socket] = {}
        try:
            # Before the partitions: however many there are, connections get descriptors.
            self._sockets = self._bound_early()
            self._services = self._assembled()
        except BaseException:
            close_all(self._sockets.values())
            if isinstance(opened, Opened):
                opened.state_log.close()
            raise
        self._presence = PresenceKeeper(opened.medium, directory, presence)
        self._dispatcher = self._dispatching()
        self._listeners: list[Listener] = []
        self._endpoints: list[Endpoint] = []
        self._stop = asyncio.Event()
        self._loop_lag = Durations()
        self._leaving: set[asyncio.Task[object]] = set()

    def _bound_early(self) -> dict[str, socket.socket]:
        self._config_file.unlink(missing_ok=True)
        return bind(self._settings)

    def _assembled(self) -> Services:
        assert isinstance(self._opened, Opened), "one process does everything"
        return services_of(
            self._settings,
            self._directory,
            self._opened,
            follower=self._start.follower,
            archiver=self._archiver,
        )

    def _dispatching(self) -> Dispatcher:
        return Dispatcher(self._services)

    def stop_on_signals(self) -> None:
        """The number of this shard, or None."""
        while_serving(asyncio.get_running_loop(), self._stop.set)

    def stop(self) -> None:
        """Let `serve` return."""
        self._stop.set()

    @property
    def addresses(self) -> dict[str, tuple[str, int]]:
        """Return where each listener accepts, by the section of its settings."""
        return {one.section: one.listener.address[:2] for one in self._endpoints}

    async def listen(self) -> None:
        """Bind every listener that is enabled; when this returns all of them accept."""
        self._note_presence(*self._present())
        await self._listen(self._settings)

    async def _listen(self, settings: Settings) -> None:
        around = self._listening_context()
        self._endpoints = await listen(settings, around, self._sockets or bind(settings))
        self._listeners = [endpoint.listener for endpoint in self._endpoints]
        self._services.cluster.bound(
            {one.section: one.listener.address[1] for one in self._endpoints}
        )

    def _listening_context(self) -> ListeningContext:
        return ListeningContext(
            binary=BinaryProtocol(
                self._dispatcher,
                unfinished_bytes_max=self._settings.tcp.max_unfinished_size,
            ),
            pool=self._opened.pool,
            revoked_tokens=self._opened.revoked_tokens,
            on_connect=self._services.sessions.add,
            on_disconnect=self._disconnected,
            loop_lag=self._loop_lag,
            more_metrics=self._archive_metrics,
        )

    def _disconnected(self, session: Session) -> None:
        was_there = self._services.sessions.remove(session)
        # A removed session has left its groups already, and its id may have been reused.
        if was_there and session.joined:
            task = asyncio.get_running_loop().create_task(self._left(session.client_id))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    async def _left(self, client_id: int) -> None:
        await self._services.metadata.submit(Proposal(ClientGone(client_id), ROOT_USER_ID))

    def announce(self, *, printed: bool = True) -> None:
        """Print what is needed to connect, then write the settings with the bound ports."""
        configuration = self._start.configuration
        opened = self._opened
        assert isinstance(opened, Opened), "a process that announces the server writes its metadata"
        root = opened.root
        ready = Readiness(
            addresses={one.name: shown_address(one.listener.address) for one in self._endpoints},
            data_directory=str(self._directory.resolve()),
            acknowledge=self._opened.acknowledge,
            settings_source=configuration.origin,
            root_source=root.source,
            root_username=root.username,
            root_password=root.shown_password,
            accelerator=ACCELERATOR.description,
            notes=list(parts_not_there(configuration)),
        )
        try:
            if printed:
                print(banner(ready), flush=True)
        except OSError as fault:
            # The password of root could be lost.
            raise InvalidConfiguration(
                f"the standard output cannot be written to: {fault.strerror}"
            ) from fault
        store_new_root(opened)
        self._write_current_config()
        log.info("borzoi %s is ready at %s", __version__, ", ".join(ready.addresses.values()))

    def _write_current_config(self) -> None:
        """Write the file and rename it into place: it signals that every listener accepts.

        A full disk does not prevent the server from serving.
        """
        settings = _with_bound_addresses(self._settings, self._endpoints)
        draft = self._config_file.with_suffix(".tmp")
        try:
            self._config_file.parent.mkdir(parents=True, exist_ok=True)
            draft.write_text(written(shown_section(settings)))
            draft.rename(self._config_file)
        except OSError as fault:
            if fault.errno not in NO_SPACE:
                raise
            draft.unlink(missing_ok=True)
            log.error("%s cannot be written: %s", self._config_file, fault.strerror)  # noqa: TRY400

    async def serve(self) -> int:
        """Serve until a signal, then finish and save everything."""
        self._watch_loop(asyncio.get_running_loop().time())
        housekeeping = asyncio.create_task(run_all(self._chores()))
        stopping = asyncio.create_task(self._stop.wait())
        done, _ = await asyncio.wait({housekeeping, stopping}, return_when=asyncio.FIRST_COMPLETED)
        failure = housekeeping in done
        if failure:
            log.critical("housekeeping ended", exc_info=housekeeping.exception())
        stopping.cancel()
        housekeeping.cancel()
        await self._finish()
        # A cancelled upload is aborted, so that nothing is left of it in the store.
        await asyncio.wait({housekeeping}, timeout=CHORES_SECONDS_MAX)
        return exit_statuses.FAILED if failure else exit_statuses.OK

    def _chores(self) -> list[Chore]:
        return [*self._shard_chores(), *self._writer_chores()]

    def _shard_chores(self) -> list[Chore]:
        """The chores of every process."""
        return [
            *shard_chores(self._settings, self._services),
            Chore("stalled connections", 5_000_000, self._give_up_stalled),
            Chore("memory", 10_000_000, self._trim),
            *self._archiver_chores(),
        ]

    def _writer_chores(self) -> list[Chore]:
        """The chores that one process does for all."""
        return [
            *writer_chores(self._settings, self._services),
            Chore("presence", PRESENCE_INTERVAL, self._keep_presence),
            Chore("revoked tokens", 300_000_000, self._forget_revoked_tokens),
            Chore(
                "log files",
                self._settings.system.logging.rotation_check_interval,
                self._forget_log_files,
            ),
        ]

    def _archiver_chores(self) -> list[Chore]:
        archiver = self._archiver
        if archiver is None:
            return []
        upkeep, metadata = self._services.partitions.upkeep, self._services.metadata
        folders = folders_of(self._settings, self._directory)
        return [
            Chore(
                "archiver",
                self._settings.system.backup.archiver.interval,
                lambda: archiver.run(upkeep.views(metadata.state, folders), self._state_copies),
            )
        ]

    def _watch_loop(self, due: float) -> None:
        """Record how late the loop is, and schedule the next measurement."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._loop_lag.observe(max(int((now - due) * 1e9), 0))
        if not self._stop.is_set():
            loop.call_at(now + LAG_SECONDS, self._watch_loop, now + LAG_SECONDS)

    def _give_up_stalled(self) -> None:
        before = asyncio.get_running_loop().time() - STALLED_SECONDS_MAX
        for listener in self._listeners:
            listener.give_up_stalled(before)

    async def _forget_revoked_tokens(self) -> None:
        await self._opened.revoked_tokens.forget_expired(now=int(time.time()))

    def _trim(self) -> None:
        self._opened.pool.trim(POOL_KEEP_BYTES)

    def _present(self) -> tuple[int, list[tuple[Namespace, Path]]]:
        """Return the last metadata entry that was carried out, and the partitions."""
        folder_of = folders_of(self._settings, self._directory)
        places = [(one, folder_of(one)) for one in self._services.partitions.opened()]
        metadata = self._services.metadata
        assert isinstance(metadata, MetadataPlane), "only the writer keeps the list"
        return metadata.settled_index, places

    def _note_presence(self, index: int, places: Sequence[tuple[Namespace, Path]]) -> None:
        """Record which partitions are on the disk; otherwise a loss would go unnoticed."""
        try:
            self._presence.note(index, places)
        except StorageFailure as fault:
            log.warning("could not write the list of partitions: %s", fault)

    async def _keep_presence(self) -> None:
        await asyncio.to_thread(self._note_presence, *self._present())

    def _forget_log_files(self) -> None:
        remove_forgotten(self._settings.system.logging, self._directory, now=time.time())

    async def _finish(self) -> None:
        """Refuse new connections, notify clients, finish running requests; within a time limit."""
        log.info("stopping")
        self._services.waits.end()
        for listener in self._listeners:
            listener.stop_accepting()
            # Before the wait: clients that keep sending would prolong it for ever.
            listener.say_goodbye(FAREWELL)
        try:
            async with asyncio.timeout(STOP_SECONDS_MAX / 2):
                await self._dispatcher.drain()
        except TimeoutError:
            log.warning("some requests did not end in time")
        for _ in range(GOODBYE_LOOKS):
            if not any(listener.connections for listener in self._listeners):
                break
            await asyncio.sleep(GOODBYE_SECONDS_MAX / GOODBYE_LOOKS)

    async def close(self) -> None:
        """Save, sync and close everything that was opened."""
        for listener in self._listeners:
            listener.close()
        close_all(self._sockets.values())
        if self._leaving:
            await asyncio.wait(self._leaving, timeout=1)
        self._services.authentication.close()
        await self._close_partitions()
        self._services.metadata.close()
        if self._archiver is not None:
            await self._archiver.close()
        log.info("stopped")

    async def _close_partitions(self) -> None:
        present = self._present()
        await self._services.partitions.close()
        self._note_presence(*present)


def _with_bound_addresses(settings: Settings, endpoints: Sequence[Endpoint]) -> Settings:
    """Return the settings with the bound ports."""
    for endpoint in endpoints:
        section = getattr(settings, endpoint.section)
        bound = section.replaced(address=endpoint.listener.address)
        settings = settings.replaced(**{endpoint.section: bound})
    return settings
