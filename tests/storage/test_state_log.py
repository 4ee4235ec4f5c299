import itertools
import os
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.disk import SimulatedDisk
from tests.support.lenient import LenientMedium
from tests.support.power_cuts import Crash, PowerCut

from borzoi.model.errors import (
    CannotDecrypt,
    CannotSync,
    InvalidConfiguration,
    StateCorrupted,
    StorageFailure,
)
from borzoi.security.encryption import Cipher
from borzoi.storage.local import LocalFile
from borzoi.storage.state_entry import StateEntry
from borzoi.storage.state_log import StateSettings, open_state_log
from borzoi.storage.state_snapshot import SNAPSHOT_NAME, read_snapshot

KEY = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="
SYNCED = StateSettings(enforce_fsync=True)


class FaultyFile(LocalFile):
    __slots__ = ("medium",)
    medium: Any

    def write(self, buffers, position):
        if self.medium.write_at_most is not None:
            room = self.medium.write_at_most
            self.medium.write_at_most = 0
            if room == 0:
                raise StorageFailure("cannot write: the disk is full")
            return super().write([b"".join(buffers)[:room]], position)
        self.medium.step()
        return super().write(buffers, position)

    def truncate(self, size):
        self.medium.step()
        if self.medium.truncate_fails:
            raise StorageFailure("cannot truncate: input/output error")
        super().truncate(size)

    def fdatasync(self):
        self.medium.step()
        if self.medium.sync_fails:
            raise CannotSync("cannot sync: input/output error")
        super().fdatasync()


class FaultyMedium(PowerCut, LenientMedium):
    """Real files; crashes before a chosen step, or fails on request."""

    def __init__(self, steps_left=PowerCut.steps_left):
        super().__init__()
        self.steps_left = steps_left
        self.sync_fails = self.truncate_fails = False
        self.write_at_most = None

    def open(self, path, *, create=False, writable=True):
        self.step()
        with super().open(path, create=create, writable=writable) as opened:
            file = FaultyFile(path, os.dup(opened.fileno()))
        file.share()
        file.medium = self
        return file


def append(log, number, term=0):
    return log.append(
        timestamp=1000 + number, user_id=number % 3, code=202, command=b"%d" % number, term=term
    )


def commands(recovered) -> list[bytes]:
    return [entry.command for entry in recovered.entries]


def test_a_new_directory_has_an_empty_log(tmp_path):
    log, recovered = open_state_log(LenientMedium(), tmp_path / "data")
    assert (recovered.snapshot, recovered.entries) == (None, [])
    assert (log.next_index, log.size) == (0, 0)
    assert (tmp_path / "data/state.messages").read_bytes() == b""


@given(st.lists(st.binary(max_size=50), max_size=8), st.booleans(), st.booleans())
def test_what_was_appended_is_there_after_opening_again(tmp_path_factory, wanted, sync, encrypt):
    directory = tmp_path_factory.mktemp("data")
    cipher = Cipher(KEY) if encrypt else None
    settings = StateSettings(enforce_fsync=sync)
    log, _ = open_state_log(LenientMedium(), directory, settings, cipher=cipher)
    written = [
        log.append(timestamp=7, user_id=1, code=302, command=command, term=2) for command in wanted
    ]
    assert [entry.index for entry in written] == list(range(len(wanted)))
    again, recovered = open_state_log(LenientMedium(), directory, settings, cipher=cipher)
    assert recovered.entries == written
    assert again.next_index == len(wanted)
    assert again.size == log.size == (directory / "state.messages").stat().st_size


def test_appending_goes_on_where_the_last_run_stopped(tmp_path):
    for run in range(3):
        log, recovered = open_state_log(LenientMedium(), tmp_path)
        assert len(recovered.entries) == run
        assert append(log, run) == StateEntry(run, 0, 1000 + run, run % 3, 202, b"%d" % run)
        log.close()


def test_a_torn_last_entry_is_cut_with_a_warning_and_the_log_goes_on(tmp_path, caplog):
    log, _ = open_state_log(LenientMedium(), tmp_path)
    append(log, 0)
    whole = log.size
    append(log, 1)
    path = tmp_path / "state.messages"
    path.write_bytes(path.read_bytes()[:-3])
    log, recovered = open_state_log(LenientMedium(), tmp_path)
    assert commands(recovered) == [b"0"]
    assert f"cut at byte {whole}" in caplog.text
    assert path.stat().st_size == whole
    append(log, 2)
    _, recovered = open_state_log(LenientMedium(), tmp_path)
    assert commands(recovered) == [b"0", b"2"]


def test_damage_in_the_middle_refuses_to_open_and_changes_nothing(tmp_path):
    log, _ = open_state_log(LenientMedium(), tmp_path)
    append(log, 0)
    second = log.size
    append(log, 1)
    append(log, 2)
    path = tmp_path / "state.messages"
    damaged = bytearray(path.read_bytes())
    damaged[second + 40] ^= 0x10
    path.write_bytes(damaged)
    with pytest.raises(StateCorrupted, match=rf"entry 1 .* at byte {second}"):
        open_state_log(LenientMedium(), tmp_path)
    assert path.read_bytes() == damaged


@pytest.mark.parametrize("written_first", [0, 1, 40, 68])
def test_an_append_that_did_not_fit_leaves_the_log_as_it_was(tmp_path, written_first):
    medium = FaultyMedium()
    log, _ = open_state_log(medium, tmp_path)
    append(log, 0)
    medium.write_at_most = written_first
    with pytest.raises(StorageFailure, match="disk is full"):
        append(log, 1)
    medium.write_at_most = None
    assert (tmp_path / "state.messages").stat().st_size == log.size
    assert append(log, 2).index == 1
    _, recovered = open_state_log(LenientMedium(), tmp_path)
    assert commands(recovered) == [b"0", b"2"]


def test_after_a_failed_sync_nothing_is_appended_until_the_next_start(tmp_path):
    medium = FaultyMedium()
    log, _ = open_state_log(medium, tmp_path, SYNCED)
    append(log, 0)
    medium.sync_fails = True
    with pytest.raises(CannotSync):
        append(log, 1)
    medium.sync_fails = False
    with pytest.raises(StorageFailure, match="until the server restarts"):
        append(log, 1)
    with pytest.raises(StorageFailure):
        log.take_snapshot(b"", timestamp=0)
    log.close()
    _, recovered = open_state_log(LenientMedium(), tmp_path)
    assert commands(recovered) == [b"0"]


def test_a_failed_explicit_sync_closes_the_log_for_appends(tmp_path):
    medium = FaultyMedium()
    log, _ = open_state_log(medium, tmp_path)
    append(log, 0)
    medium.sync_fails = True
    with pytest.raises(CannotSync):
        log.sync()
    with pytest.raises(StorageFailure):
        append(log, 1)


def test_a_log_that_cannot_be_cut_back_takes_nothing_more(tmp_path):
    medium = FaultyMedium()
    log, _ = open_state_log(medium, tmp_path)
    medium.write_at_most, medium.truncate_fails = 5, True
    with pytest.raises(StorageFailure, match="disk is full"):
        append(log, 0)
    medium.write_at_most, medium.truncate_fails = None, False
    with pytest.raises(StorageFailure, match="cannot truncate"):
        append(log, 0)


def test_a_closed_log_takes_nothing_more(tmp_path):
    log, _ = open_state_log(LenientMedium(), tmp_path)
    log.close()
    log.close()
    with pytest.raises(StorageFailure, match="closed"):
        append(log, 0)


def test_a_snapshot_replaces_the_entries_it_includes(tmp_path):
    log, _ = open_state_log(LenientMedium(), tmp_path)
    for number in range(5):
        append(log, number, term=4)
    log.take_snapshot(b"everything so far", timestamp=77)
    assert (tmp_path / "state.messages").stat().st_size == log.size == 0
    append(log, 5, term=4)
    again, recovered = open_state_log(LenientMedium(), tmp_path)
    snapshot = recovered.snapshot
    assert snapshot is not None
    assert (snapshot.index, snapshot.term, snapshot.timestamp) == (4, 4, 77)
    assert snapshot.body == b"everything so far"
    assert [entry.index for entry in recovered.entries] == [5]
    assert again.next_index == 6
    assert again.entries_since_snapshot == 1


def test_a_snapshot_is_wanted_after_enough_entries_or_bytes(tmp_path):
    log, _ = open_state_log(LenientMedium(), tmp_path, StateSettings(snapshot_entries=3))
    wanted = []
    for number in range(3):
        wanted.append(log.wants_snapshot)
        append(log, number)
    assert [*wanted, log.wants_snapshot] == [False, False, False, True]
    log.take_snapshot(b"", timestamp=0)
    assert log.wants_snapshot is False
    log, _ = open_state_log(LenientMedium(), tmp_path, StateSettings(snapshot_bytes=100))
    append(log, 0)
    append(log, 1)
    assert log.wants_snapshot


@pytest.mark.parametrize("setting", [{"snapshot_entries": 0}, {"snapshot_bytes": 0}])
def test_a_snapshot_after_nothing_is_not_a_setting(setting):
    with pytest.raises(InvalidConfiguration):
        StateSettings(**setting)


@pytest.mark.parametrize("encrypt", [False, True])
def test_a_crash_at_any_step_loses_no_command_and_repeats_none(tmp_path, encrypt):
    """The model of the state is the list of commands; the snapshot is its text."""
    cipher = Cipher(KEY) if encrypt else None

    def recover(medium, directory):
        log, recovered = open_state_log(medium, directory, SYNCED, cipher=cipher)
        state = recovered.snapshot.body.split() if recovered.snapshot else []
        return log, state + commands(recovered)

    for steps in itertools.count():
        directory = tmp_path / str(steps)
        answered: list[bytes] = []
        finished = False
        try:
            medium = FaultyMedium(steps_left=steps)
            log, state = recover(medium, directory)
            for number in range(4):
                append(log, number)
                state.append(b"%d" % number)
                answered.append(b"%d" % number)
                if number % 2:
                    log.take_snapshot(b" ".join(state), timestamp=number)
            log.close()
            finished = True
        except Crash:
            pass
        log, survived = recover(LenientMedium(), directory)
        asked = [b"%d" % number for number in range(4)]
        assert survived in (answered, asked[: len(answered) + 1])
        append(log, 9)
        _, survived_again = recover(LenientMedium(), directory)
        assert survived_again == [*survived, b"9"]
        assert list(directory.glob("*.tmp")) == []
        if finished:
            assert survived == asked
            return


@pytest.mark.parametrize("seed", range(150))
@pytest.mark.parametrize("sync", [False, True])
def test_power_cuts_and_kills_lose_nothing_that_was_promised(seed, sync):
    """The model of the state is the list of commands; the snapshot is its text.

    With `enforce_fsync` every answered command survives a power cut; without it, a prefix does
    and every answered command survives a kill.
    """
    draws = random.Random(seed)
    disk = SimulatedDisk()
    directory = Path("/data")
    settings = StateSettings(enforce_fsync=sync)
    expected: list[bytes] = []
    durable = floor = 0
    for run in range(4):
        try:
            log, recovered = open_state_log(disk, directory, settings)
        except StateCorrupted:
            # Unsynced entries may be lost in any order, and then the log says so.
            assert not sync
            return
        state = recovered.snapshot.body.split() if recovered.snapshot else []
        state += commands(recovered)
        assert state == expected[: len(state)]
        assert len(state) >= floor
        expected = list(state)
        for number in range(draws.randrange(6)):
            command = b"%d-%d" % (run, number)
            log.append(timestamp=1, user_id=0, code=1, command=command)
            expected.append(command)
            if sync:
                durable = len(expected)
            if draws.random() < 0.3:
                log.take_snapshot(b" ".join(expected), timestamp=2)
                durable = len(expected)
        if draws.random() < 0.5:
            disk.kill()
            floor = len(expected)
        else:
            disk.power_cut(draws)
            floor = durable


def test_entries_missing_between_snapshot_and_log_are_noticed(tmp_path):
    log, _ = open_state_log(LenientMedium(), tmp_path)
    append(log, 0)
    log.take_snapshot(b"", timestamp=0)
    old_snapshot = (tmp_path / SNAPSHOT_NAME).read_bytes()
    append(log, 1)
    log.take_snapshot(b"", timestamp=0)
    append(log, 2)
    (tmp_path / SNAPSHOT_NAME).write_bytes(old_snapshot)
    with pytest.raises(StateCorrupted, match="begins with entry 2 and the snapshot ends with 0"):
        open_state_log(LenientMedium(), tmp_path)
    (tmp_path / SNAPSHOT_NAME).unlink()
    with pytest.raises(StateCorrupted, match="begins with entry 2 and there is no snapshot"):
        open_state_log(LenientMedium(), tmp_path)


def test_a_snapshot_without_its_key_is_refused(tmp_path):
    log, _ = open_state_log(LenientMedium(), tmp_path, cipher=Cipher(KEY))
    append(log, 0)
    log.take_snapshot(b"secret", timestamp=0)
    assert b"secret" not in (tmp_path / SNAPSHOT_NAME).read_bytes()
    with pytest.raises(CannotDecrypt, match="no encryption key"):
        open_state_log(LenientMedium(), tmp_path)
    taken = read_snapshot(LenientMedium(), tmp_path, Cipher(KEY))
    assert taken is not None
    assert taken.body == b"secret"
