from typing import Any

import pytest
from tests.support.lenient import LenientMedium

from borzoi.metadata import snapshot
from borzoi.metadata.commands import LoggedCommand, encode_command
from borzoi.metadata.machine import Entry, apply
from borzoi.metadata.state import Metadata
from borzoi.metadata.users import root_creation
from borzoi.model.limits import NEVER, UNLIMITED
from borzoi.model.topics import Compression
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic
from borzoi.security.encryption import Cipher
from borzoi.storage.info import open_info
from borzoi.storage.state_log import open_state_log
from borzoi.tools.findings import Finding, Progress, Severity
from borzoi.tools.metadata_inspection import inspect_metadata

MEDIUM = LenientMedium()
KEY = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="
COMMANDS: list[LoggedCommand] = [
    root_creation("iggy", "$argon2id$hash"),
    CreateStream("orders"),
    CreateTopic(
        stream_id=0,
        name="incoming",
        partitions_count=3,
        compression=Compression.NONE,
        message_expiry=NEVER,
        max_topic_size=UNLIMITED,
        replication_factor=1,
    ),
]


def append(log, command, at: int = 5) -> None:
    code, body = encode_command(command)
    log.append(timestamp=at, user_id=0, code=code, command=body)


@pytest.fixture
def directory(tmp_path):
    open_info(MEDIUM, tmp_path, version="0.1.0", now=1)
    log, _ = open_state_log(MEDIUM, tmp_path)
    for command in COMMANDS:
        append(log, command)
    log.close()
    return tmp_path


def inspected(directory, cipher=None) -> tuple[list[Finding], int, Any]:
    findings: list[Finding] = []
    entries = 0
    generator = inspect_metadata(MEDIUM, directory, cipher)
    while True:
        try:
            found = next(generator)
        except StopIteration as stop:
            return findings, entries, stop.value
        if isinstance(found, Progress):
            entries += found.entries
        else:
            findings.append(found)


def test_sound_metadata_is_read_and_replayed(directory):
    findings, entries, state = inspected(directory)
    assert (findings, entries) == ([], 3)
    assert len(state.streams[0].topics[0].partitions) == 3


def test_a_snapshot_and_the_entries_behind_it_are_put_together(directory):
    log, recovered = open_state_log(MEDIUM, directory)
    state = Metadata()
    for command in COMMANDS:
        apply(state, Entry(5, 0, command))
    assert len(recovered.entries) == 3
    log.take_snapshot(snapshot.encode(state), timestamp=9)
    append(log, CreateStream("payments"))
    findings, entries, state = inspected(directory)
    assert (findings, entries) == ([], 1)
    assert [stream.name for stream in state.streams.values()] == ["orders", "payments"]


def test_every_flipped_byte_of_log_and_snapshot_is_found(directory):
    log, _ = open_state_log(MEDIUM, directory)
    state = Metadata()
    for command in COMMANDS:
        apply(state, Entry(5, 0, command))
    log.take_snapshot(snapshot.encode(state), timestamp=9)
    append(log, CreateStream("payments"))
    append(log, CreateStream("refunds"))
    for name in ("state.messages", "state.snapshot"):
        path = directory / name
        whole = path.read_bytes()
        for place in range(len(whole)):
            damaged = bytearray(whole)
            damaged[place] ^= 0x20
            path.write_bytes(damaged)
            findings, _, _ = inspected(directory)
            assert max(f.severity for f in findings) >= Severity.WARNING
            assert {f.path for f in findings} == {path}
        path.write_bytes(whole)


def test_a_refused_command_in_the_log_is_no_fault(directory):
    log, _ = open_state_log(MEDIUM, directory)
    append(log, CreateStream("orders"))
    findings, entries, state = inspected(directory)
    assert (findings, entries) == ([], 4)
    assert len(state.streams) == 1


def test_a_command_nobody_can_read_is_damage(directory):
    log, _ = open_state_log(MEDIUM, directory)
    log.append(timestamp=5, user_id=0, code=202, command=b"\xc1")
    findings, _, state = inspected(directory)
    assert state is None
    assert findings[0].severity is Severity.DAMAGE
    assert "entry 3" in findings[0].what


def test_a_torn_tail_is_a_warning_with_its_place(directory):
    path = directory / "state.messages"
    whole = path.read_bytes()
    path.write_bytes(whole + b"half an entry")
    ((finding,), _, state) = inspected(directory)
    assert (finding.severity, finding.position) == (Severity.WARNING, len(whole))
    assert state is not None


def test_a_missing_start_of_the_log_is_damage(directory):
    log, _ = open_state_log(MEDIUM, directory)
    log.take_snapshot(snapshot.encode(Metadata()), timestamp=9)
    append(log, CreateStream("late"))
    (directory / "state.snapshot").unlink()
    findings, _, _ = inspected(directory)
    assert any("begins with entry 3, entry 0 is needed" in f.what for f in findings)


def test_encrypted_metadata_needs_its_key(tmp_path):
    open_info(MEDIUM, tmp_path, version="0.1.0", now=1)
    log, _ = open_state_log(MEDIUM, tmp_path, cipher=Cipher(KEY))
    append(log, COMMANDS[0])
    ((finding,), _, state) = inspected(tmp_path)
    assert (finding.severity, state) == (Severity.WARNING, None)
    assert inspected(tmp_path, Cipher(KEY))[0] == []
    log.take_snapshot(b"\x92\x01\x80", timestamp=9)
    ((finding,), _, _) = inspected(tmp_path)
    assert "cannot be looked into" in finding.what


def test_a_snapshot_that_says_nothing_is_damage(directory):
    log, _ = open_state_log(MEDIUM, directory)
    log.take_snapshot(b"\xc1", timestamp=9)
    ((finding,), _, state) = inspected(directory)
    assert (finding.severity, state) == (Severity.DAMAGE, None)


def test_info_is_looked_at(directory):
    path = directory / "info.json"
    path.write_bytes(b'{"version":"9","created_at":1,"format":99}')
    assert [f.severity for f in inspected(directory)[0]] == [Severity.WARNING]
    path.write_bytes(b"{")
    assert [f.severity for f in inspected(directory)[0]] == [Severity.DAMAGE]
    path.unlink()
    (directory / "state.messages.tmp").write_bytes(b"")
    assert [f.severity for f in inspected(directory)[0]] == [Severity.NOTE, Severity.NOTE]


def test_a_directory_without_a_log_has_no_metadata(tmp_path):
    findings, _, state = inspected(tmp_path)
    assert [f.severity for f in findings] == [Severity.NOTE, Severity.WARNING]
    assert snapshot.encode(state) == snapshot.encode(Metadata())
