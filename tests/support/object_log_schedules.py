"""Random schedules for the real `ObjectLog`: writers that pause, crash and take over, requests that
are lost, late or doubled, all drawn from one seed and run on a clock that never waits.

`run_schedule(seed)` returns what went wrong, or nothing. What must hold: a record that was
acknowledged is in the log for ever, once, at the offset it was given, and no offset is given to two
records; and a writer is fenced only by a writer with a higher epoch.
"""

import asyncio
import random
import selectors
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from borzoi.objectstore.decorating import StoreDecorator
from borzoi.objectstore.errors import (
    Ambiguous,
    Fenced,
    ObjectExists,
    ObjectStoreError,
    Throttled,
    Unavailable,
)
from borzoi.objectstore.log_opening import Opener
from borzoi.objectstore.memory import MemoryStore
from borzoi.objectstore.object_log import LogAddress, ObjectLog, Slot
from borzoi.objectstore.translating import WRITES

T = TypeVar("T")

WINDOW = 3
STEPS = 120
WRITERS_MAX = 4
#: Drawn once for each schedule: what is rare in one is frequent in another.
START_CHANCES = (0.03, 0.03, 0.2)
CRASH_CHANCES = (0.02, 0.0)
SWITCH_CHANCES = (0.05, 0.15, 0.4)
LOSS_CHANCES = (0.2, 0.2, 0.02)
#: Of what a writer does by itself: the share of appends, the rest being checkpoints and trims.
APPEND_CHANCES = (0.7, 0.5, 0.35)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its clock moves only when there is nothing left to do, and then at once."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_NoSelector(self))

    def time(self) -> float:
        return self._now


class _NoSelector(selectors.SelectSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        assert timeout is not None, "nothing would ever happen again"
        self._loop._now += timeout
        return []


async def settled() -> None:
    """Wait until every task has done what it can without the scheduler."""
    await asyncio.sleep(1e-6)


class Request:
    """A request on its way; the scheduler decides what becomes of it."""

    def __init__(self, op: str, key: str, perform: Callable[[], Awaitable[Any]]) -> None:
        self.op = op
        self.key = key
        self.perform = perform
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def apply(self) -> None:
        """Carry it out, and answer if the caller still waits."""
        try:
            result = await self.perform()
        except ObjectStoreError as fault:
            self.fail(fault)
        else:
            if not self.answer.done():
                self.answer.set_result(result)

    async def perform_quietly(self) -> None:
        """Carry it out without an answer."""
        try:
            await self.perform()
        except ObjectStoreError:
            pass

    def fail(self, fault: ObjectStoreError) -> None:
        if not self.answer.done():
            self.answer.set_exception(fault)
            self.answer.exception()


class ScheduledStore(StoreDecorator):
    """Hands every request to the scheduler."""

    def __init__(self, store: MemoryStore, sent: list[Request]) -> None:
        super().__init__(store)
        self._sent = sent

    async def around(self, op: str, key: str, size: int, request: Callable[[], Awaitable[T]]) -> T:
        asked = Request(op, key, request)
        self._sent.append(asked)
        return await asked.answer


class Dice:
    """What a writer draws: its nonces and its time come from the seed, and pauses take no time."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)

    def now(self) -> int:
        return 0

    def nonce(self) -> bytes:
        return self._dice.randbytes(16)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


class Records:
    """The state of a writer: which record has which offset."""

    def __init__(self, faults: list[str]) -> None:
        self.records: list[int] = []
        self._faults = faults
        #: What looked wrong since the last restore: it counts when the log opens on it.
        self._doubts: list[str] = []

    def opened(self) -> None:
        """The log was opened with what was replayed."""
        self._faults += self._doubts

    def restore(self, body: bytes | None) -> None:
        # A newer checkpoint voids what was replayed: slots may have been trimmed meanwhile.
        self._doubts.clear()
        self.records = msgspec.msgpack.decode(body) if body else []

    def replay(self, slot: Slot) -> None:
        offset, record = msgspec.msgpack.decode(slot.body)
        if offset != len(self.records):
            self._doubts.append(f"offset {offset} was replayed in the place of {len(self.records)}")
        if record in self.records:
            self._doubts.append(f"record {record} was replayed twice")
        self.records.append(record)

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(self.records)


class Writer:
    """One process with its own epoch."""

    def __init__(self, world: "World", epoch: int) -> None:
        self.world = world
        self.epoch = epoch
        self.sent: list[Request] = []
        self.state = Records(world.faults)
        self.place = LogAddress(ScheduledStore(world.store, self.sent), "l", 7, window=WINDOW)
        self.log: ObjectLog | None = None
        self.next_offset = 0
        self.next_sequence = 0
        self.chores: set[asyncio.Task[None]] = set()
        self.run(self.open)

    def run(self, work: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.create_task(self._guarded(work))
        self.chores.add(task)
        task.add_done_callback(self.chores.discard)

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Fenced:
            self.world.fenced(self)
        except AssertionError as mistake:
            self.world.faults.append(f"epoch {self.epoch} made a mistake: {mistake!r}")
        except ObjectStoreError:
            if self.log is None:
                # Opening failed for now; the same epoch may try again.
                self.run(self.open)

    async def open(self) -> None:
        opener = Opener(self.place, self.epoch, Dice(self.epoch), self.state, prefetched=2)
        self.log = await opener.open(inflight_max=WINDOW)
        self.state.opened()
        self.next_offset = len(self.state.records)
        self.next_sequence = self.log.committed

    def append(self) -> None:
        assert self.log is not None
        record, offset = self.world.new_record(), self.next_offset
        self.next_offset += 1
        ack = self.log.append(msgspec.msgpack.encode((offset, record)))
        ack.add_done_callback(lambda done: self._acked(done, offset, record))

    def _acked(self, done: "asyncio.Future[int]", offset: int, record: int) -> None:
        if done.cancelled() or done.exception() is not None:
            if isinstance(done.exception(), Fenced):
                self.world.fenced(self)
            return
        self.world.acked(offset, record)
        self.state.records.append(record)
        self.next_sequence = done.result() + 1

    async def checkpoint(self) -> None:
        assert self.log is not None
        await self.log.write_checkpoint(self.state.snapshot(), next_sequence=self.next_sequence)

    async def trim(self) -> None:
        assert self.log is not None
        await self.log.trim()

    @property
    def alive(self) -> bool:
        return self.log is None or self.log.failure is None

    async def crash(self) -> None:
        for task in list(self.chores):
            task.cancel()
        if self.log is not None:
            await self.log.abandon()


class World:
    """The store, the writers, and everything that was promised."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.store = MemoryStore()
        self.faults: list[str] = []
        self.promised: dict[int, int] = {}
        self.writers: list[Writer] = []
        #: Requests whose sender has given up; they may still arrive, or arrive again.
        self.late: list[Request] = []
        self.arrivals = 0
        self.epochs = 0
        self._records = 0
        self._running: Writer | None = None
        self._start_chance = self.dice.choice(START_CHANCES)
        self._crash_chance = self.dice.choice(CRASH_CHANCES)
        self._switch_chance = self.dice.choice(SWITCH_CHANCES)
        self._loss_chance = self.dice.choice(LOSS_CHANCES)
        self._append_chance = self.dice.choice(APPEND_CHANCES)

    def new_record(self) -> int:
        self._records += 1
        return self._records

    def acked(self, offset: int, record: int) -> None:
        if self.promised.setdefault(offset, record) != record:
            self.faults.append(f"offset {offset} was given to {self.promised[offset]} and {record}")

    def fenced(self, writer: Writer) -> None:
        if writer.epoch == self.epochs:
            self.faults.append(f"epoch {writer.epoch} was fenced by no other")

    def start(self) -> None:
        self.epochs += 1
        self.writers.append(Writer(self, self.epochs))

    async def step(self) -> None:
        """One thing happens to one writer, or to one of the late requests."""
        if self.dice.random() < self._start_chance and self.epochs < WRITERS_MAX:
            self.start()
        elif self.dice.random() < self._crash_chance and self.writers:
            await self._crash(self.dice.choice(self.writers))
        elif self.dice.random() < 0.1 and self.late:
            late = self.late[self.dice.randrange(len(self.late))]
            self.arrivals += 1
            await late.apply()  # it stays, so it may arrive a second time
            if self.dice.random() < 0.7:
                self.late.remove(late)
        elif self.writers:
            await self._advance(self._next_writer())
        await settled()

    def _next_writer(self) -> Writer:
        """Mostly the one that ran last: the others are paused, some for long."""
        if self._running not in self.writers or self.dice.random() < self._switch_chance:
            self._running = self.dice.choice(self.writers)
        return self._running

    async def _advance(self, writer: Writer) -> None:
        if writer.sent and self.dice.random() < 0.7:
            request = writer.sent.pop(self.dice.randrange(len(writer.sent)))
            await self._deliver(request)
        elif writer.log is not None and writer.alive:
            draw = self.dice.random()
            if draw < self._append_chance:
                writer.append()
            elif draw < (1 + self._append_chance) / 2:
                writer.run(writer.checkpoint)
            else:
                writer.run(writer.trim)

    async def _deliver(self, request: Request) -> None:
        lost = (Ambiguous if request.op in WRITES else Unavailable)("lost", op=request.op)
        if self.dice.random() >= self._loss_chance:
            await request.apply()
            return
        match self.dice.randrange(5):
            case 0 | 1:  # done, and the answer is lost
                await request.perform_quietly()
                request.fail(lost)
            case 2:  # never arrives
                request.fail(lost)
            case 3 if request.op == "create":  # done by a lost attempt, so there is one
                await request.perform_quietly()
                request.fail(ObjectExists("there is one", op=request.op))
            case 3:  # refused
                request.fail(Throttled("slow down", op=request.op))
            case _:  # given up by its sender, and arrives later
                request.fail(lost)
                if request.op in WRITES:
                    self.late.append(request)

    async def _crash(self, writer: Writer) -> None:
        self.writers.remove(writer)
        self.late += [request for request in writer.sent if request.op in WRITES]
        await writer.crash()

    async def check(self) -> None:
        """Open the log once more, without trouble, and compare."""
        self.epochs += 1
        state = Records(self.faults)
        place = LogAddress(self.store, "l", 7, window=WINDOW)
        await Opener(place, self.epochs, Dice(-self.epochs), state).open(inflight_max=1)
        state.opened()
        for offset, record in self.promised.items():
            if offset >= len(state.records) or state.records[offset] != record:
                self.faults.append(f"record {record} was acknowledged at {offset} and is not there")
        if len(set(state.records)) != len(state.records):
            self.faults.append("a record is in the log twice")

    async def stop(self) -> None:
        for writer in list(self.writers):
            await writer.crash()
        await settled()


class Outcome(msgspec.Struct):
    """What a schedule did, for tests that must not pass because nothing happened."""

    faults: list[str]
    acknowledged: int
    epochs: int
    #: Requests that arrived after their sender had given them up.
    late: int


async def _play(seed: int) -> Outcome:
    world = World(seed)
    world.start()
    for _ in range(STEPS):
        await world.step()
    await world.check()
    # Writers that were fenced just now do not know it yet: let them try.
    for _ in range(STEPS // 3):
        await world.step()
    await world.check()
    await world.stop()
    return Outcome(world.faults, len(world.promised), world.epochs, world.arrivals)


def run_schedules(seeds: range) -> dict[int, Outcome]:
    """Play every seed; the same seed gives the same outcome."""
    loop = VirtualLoop()
    try:
        return {seed: loop.run_until_complete(_play(seed)) for seed in seeds}
    finally:
        loop.close()
