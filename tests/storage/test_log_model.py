"""A log against a list: whatever happens, it opens to a prefix of what was appended, and to no
less than it promised."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.support.disk import Process, SimulatedDisk
from tests.support.logs import ManualSyncer, numbered

from borzoi.storage.kept import KeptMessages
from borzoi.storage.log import SegmentedLog, open_log
from borzoi.storage.settings import Acknowledge, CacheIndexes, PartitionSettings, SegmentSettings

DIRECTORY = Path("/data/streams/0/topics/0/partitions/0")

batches = st.lists(st.lists(st.integers(0, 400), min_size=1, max_size=12), min_size=1, max_size=5)
seeds = st.integers(0, 2**32 - 1)


#: Shrinking a history takes minutes; ask for it when there is one to look at.
PHASES = [Phase.explicit, Phase.reuse, Phase.generate]
if "BORZOI_SHRINK" in os.environ:
    PHASES.append(Phase.shrink)


class LogMatchesAList(RuleBasedStateMachine):
    """`model[i]` is the message at offset `first + i`; promises are offsets."""

    level: Acknowledge

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.disk = SimulatedDisk()
        self.model: list[bytes] = []
        self.times: list[int] = []
        self.first = 0
        self.clock = 1000
        #: Everything below survives SIGKILL, and below the other a power cut as well.
        self.kill_proof = 0
        self.power_proof = 0
        self.waiting: list[tuple[int, asyncio.Future[None]]] = []
        self.syncing: list[tuple[int, asyncio.Future[None]]] = []
        #: What consumers hold in memory.
        self.kept: list[KeptMessages] = []

    @initialize(
        segment=st.sampled_from([512, 2048, 8192, 1 << 30]),
        cache=st.sampled_from(CacheIndexes),
        lag=st.sampled_from([1, 5, 4096]),
        large=st.sampled_from([1, 500, 65536]),
        validate=st.booleans(),
    )
    def create(
        self, segment: int, cache: CacheIndexes, lag: int, large: int, validate: bool
    ) -> None:
        self.segment = SegmentSettings(size=segment, cache_indexes=cache)
        self.partition = PartitionSettings(
            acknowledge=self.level,
            messages_required_to_save=8,
            size_of_messages_required_to_save=2000,
            validate_checksum=validate,
        )
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr("borzoi.storage.index_lag.LAG_ENTRIES", lag)
        self.patch.setattr("borzoi.storage.log_writing.LARGE_BYTES", large)
        self.open()

    def open(self) -> None:
        self.syncer = ManualSyncer()
        self.log: SegmentedLog = open_log(
            DIRECTORY,
            Process(self.disk),
            segment=self.segment,
            partition=self.partition,
            syncer=self.syncer,
        )
        assert self.log.fenced is None, self.log.fenced

    def run(self, steps: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.loop.run_until_complete(steps())

    @property
    def end(self) -> int:
        return self.first + len(self.model)

    # What happens. -------------------------------------------------------------------------------

    @rule(batches=batches, crash=st.sampled_from([None, None, None, "kill", "power"]), seed=seeds)
    def append_in_one_turn(self, batches: list[list[int]], crash: str | None, seed: int) -> None:
        async def steps() -> None:
            for sizes in batches:
                self.append(sizes)
            if crash is not None:
                self.crash(crash, seed)

        self.run(steps)
        self.note_promises()

    @rule(sizes=st.lists(st.integers(0, 400), min_size=1, max_size=12))
    def append_without_a_loop(self, sizes: list[int]) -> None:
        self.sync_everything()  # a log is used on a loop or without one, not both at once
        self.append(sizes)

    def append(self, sizes: list[int]) -> None:
        self.clock += Random(self.clock).randrange(3)
        payloads = [bytes([self.clock % 256]) * size for size in sizes]
        batch = numbered(payloads, base_offset=self.log.next_offset, timestamp=self.clock)
        stored = [bytes(batch.messages[start:end]) for start, end in batch.bounds()]
        assert self.log.next_offset == self.end
        waiter = self.log.append(batch, timestamp=self.clock)
        self.model += stored
        self.times += [self.clock] * len(stored)
        if waiter is not None:
            self.waiting.append((self.end, waiter))
        else:
            self.promise(self.end)

    def promise(self, offset: int) -> None:
        """Messages below `offset` were acknowledged at the level of the log."""
        if self.level is not Acknowledge.BUFFERED:
            self.kill_proof = max(self.kill_proof, offset)
        if self.level is Acknowledge.SYNCED:
            self.power_proof = max(self.power_proof, offset)

    def note_promises(self) -> None:
        unanswered = []
        for offset, waiter in self.waiting:
            if not waiter.done():
                unanswered.append((offset, waiter))
            elif waiter.exception() is None:
                self.promise(offset)
        self.waiting = unanswered
        for offset, waiter in [*self.syncing]:
            if waiter.done() and waiter.exception() is None:
                self.power_proof = max(self.power_proof, offset)
                self.syncing.remove((offset, waiter))

    @rule()
    def a_sync_ends(self) -> None:
        async def steps() -> None:
            self.syncer.run_next()
            await asyncio.sleep(0)

        self.run(steps)
        self.note_promises()

    def sync_everything(self) -> None:
        async def steps() -> None:
            await asyncio.sleep(0)
            self.syncer.run_all()
            await asyncio.sleep(0)

        self.run(steps)
        self.note_promises()

    @rule(sync=st.booleans())
    def flush(self, sync: bool) -> None:
        async def steps() -> None:
            waiter = self.log.flush(sync=sync)
            if self.level is not Acknowledge.SYNCED:
                self.kill_proof = self.end
            if sync and waiter is None:
                self.power_proof = self.end
            elif sync and waiter is not None:
                self.syncing.append((self.end, waiter))

        self.run(steps)
        self.note_promises()

    @rule(how=st.sampled_from(["kill", "power"]), seed=seeds)
    def crash_and_reopen(self, how: str, seed: int) -> None:
        async def steps() -> None:
            self.crash(how, seed)

        self.run(steps)

    def crash(self, how: str, seed: int) -> None:
        promised = self.power_proof if how == "power" else max(self.kill_proof, self.power_proof)
        promised = max(promised, self.log.visible_offset if self.survives(how) else 0)
        if how == "power":
            self.disk.power_cut(Random(seed))
        else:
            self.disk.kill()
        self.waiting.clear()
        self.syncing.clear()
        self.open()
        again = open_log(DIRECTORY, self.disk, segment=self.segment, partition=self.partition)
        assert (again.first_offset, again.next_offset) == (
            self.log.first_offset,
            self.log.next_offset,
        ), "opening twice gives the same"
        survived = self.log.next_offset
        assert promised <= survived <= self.end
        del self.model[survived - self.first :], self.times[survived - self.first :]
        self.kill_proof = survived
        self.power_proof = min(promised, survived) if how == "power" else self.power_proof
        if self.level is Acknowledge.SYNCED:
            self.power_proof = survived
        self.check_content()

    def survives(self, how: str) -> bool:
        """Whether what readers could see must survive this."""
        if how == "power":
            return self.level is Acknowledge.SYNCED
        return self.level is not Acknowledge.BUFFERED

    @rule()
    def close_and_reopen(self) -> None:
        async def steps() -> None:
            self.log.close()
            self.disk.kill()
            self.open()

        self.run(steps)
        self.waiting.clear()
        self.syncing.clear()
        self.kill_proof = self.power_proof = self.end
        self.check_content()

    @rule(count=st.integers(1, 3))
    def delete_segments(self, count: int) -> None:
        before = self.log.segments()
        removed = self.log.delete_segments(count)
        visible = self.log.visible_offset
        allowed = sum(facts.sealed and facts.end_offset < visible for facts in before)
        assert removed.segments == min(count, allowed)
        gone = self.log.first_offset - self.first
        assert removed.messages == gone
        assert removed.size == sum(map(len, self.model[:gone]))
        del self.model[:gone], self.times[:gone]
        self.first = self.log.first_offset

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        self.sync_everything()
        offset = data.draw(st.integers(self.first, self.end))
        self.log.truncate(offset)
        del self.model[offset - self.first :], self.times[offset - self.first :]
        self.kill_proof = min(self.kill_proof, offset)
        self.power_proof = min(self.power_proof, offset)
        assert self.log.next_offset == offset

    @rule()
    def purge(self) -> None:
        self.log.purge()
        self.note_promises()
        assert all(waiter.done() for _, waiter in self.waiting)
        self.model.clear()
        self.times.clear()
        self.first = self.kill_proof = self.power_proof = 0

    # What must hold. -----------------------------------------------------------------------------

    @rule(data=st.data(), count=st.integers(0, 30))
    def read(self, data: st.DataObject, count: int) -> None:
        visible = self.log.visible_offset
        offset = data.draw(st.integers(0, self.end + 2))
        reading = self.log.read(offset, count)
        start = max(offset, self.first)
        expected = self.model[start - self.first : min(start + count, visible) - self.first]
        if start >= visible:
            expected = []
        assert reading.materialise() == b"".join(expected)
        assert reading.count == len(expected)
        assert reading.size == sum(map(len, expected))
        if expected:
            assert reading.first_offset == start

    @rule(data=st.data(), size_max=st.integers(0, 2000))
    def read_bounded(self, data: st.DataObject, size_max: int) -> None:
        offset = data.draw(st.integers(self.first, self.end))
        visible = self.model[offset - self.first : max(self.log.visible_offset - self.first, 0)]
        expected = visible[:1]
        for message in visible[1:]:
            if sum(map(len, expected)) + len(message) > size_max:
                break
            expected.append(message)
        reading = self.log.read(offset, 1000, size_max=size_max)
        assert reading.materialise() == b"".join(expected)
        assert reading.count == len(expected)

    @rule(data=st.data(), count=st.integers(1, 6))
    def keep(self, data: st.DataObject, count: int) -> None:
        offset = data.draw(st.integers(0, self.end + 2))
        end = min(offset + count, self.log.visible_offset)
        kept = self.log.kept(offset, end) if offset < end else None
        if kept is not None:
            assert kept.first_offset <= offset < end <= kept.end_offset
            assert kept.edition == self.log.edition
            self.kept.append(kept)

    @precondition(lambda self: hasattr(self, "log"))
    @invariant()
    def messages_in_memory_agree(self) -> None:
        """As long as the log has their edition."""
        self.kept = [kept for kept in self.kept if kept.edition == self.log.edition]
        for kept in self.kept:
            end = min(kept.end_offset, self.log.visible_offset)
            if kept.first_offset < end:
                found = kept.content(kept.first_offset, end)
                assert kept.first_offset >= self.first
                expected = self.model[kept.first_offset - self.first : end - self.first]
                assert found == b"".join(expected)

    @rule(data=st.data())
    def search_by_time(self, data: st.DataObject) -> None:
        timestamp = data.draw(st.integers(999, self.clock + 1))
        visible = self.times[: max(self.log.visible_offset - self.first, 0)]
        older = sum(time < timestamp for time in visible)
        assert self.log.offset_at(timestamp) == self.first + older

    @precondition(lambda self: hasattr(self, "log"))
    @invariant()
    def statistics_agree(self) -> None:
        log = self.log
        assert log.first_offset == self.first
        assert log.next_offset == self.end
        assert log.size == sum(map(len, self.model))
        assert log.messages_count == log.visible_offset - self.first
        assert self.first <= log.visible_offset <= self.end
        if self.level is Acknowledge.BUFFERED:
            assert log.visible_offset == self.end
        segments = log.segments()
        assert [facts.sealed for facts in segments] == [True] * (len(segments) - 1) + [False]

    def check_content(self) -> None:
        assert self.log.first_offset == self.first
        assert self.log.next_offset == self.log.visible_offset == self.end
        assert self.log.read(0, 1 << 30).materialise() == b"".join(self.model)

    def teardown(self) -> None:
        if hasattr(self, "patch"):
            self.patch.undo()
        self.loop.close()


def machine(level: Acknowledge) -> type[LogMatchesAList]:
    return type(f"LogMatchesAList_{level}", (LogMatchesAList,), {"level": level})


@pytest.mark.parametrize("level", Acknowledge)
def test_a_log_matches_a_list_through_crashes_and_power_cuts(level: Acknowledge) -> None:
    run_state_machine_as_test(
        machine(level),
        settings=settings(
            max_examples=int(os.environ.get("BORZOI_LOG_EXAMPLES", "60")),
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=PHASES,
        ),
    )


@pytest.mark.deep
@pytest.mark.parametrize("level", Acknowledge)
def test_a_log_matches_a_list_through_thousands_of_histories(level: Acknowledge) -> None:
    run_state_machine_as_test(
        machine(level),
        settings=settings(
            max_examples=2000,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=PHASES,
        ),
    )
