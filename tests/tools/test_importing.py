import json
import shutil
from pathlib import Path

import pytest
from tests.support.golden import GOLDEN_DATA, GOLDEN_KEY
from tests.support.lenient import LenientMedium

from borzoi.metadata import queries, snapshot
from borzoi.model.consuming import ConsumerKind, PollingKind
from borzoi.model.errors import (
    CannotDecrypt,
    InvalidConfiguration,
    StateCorrupted,
    StorageFailure,
)
from borzoi.model.identifiers import consumer_key
from borzoi.model.namespace import Namespace
from borzoi.partitions.encrypting import decrypted
from borzoi.protocol.buffers import Reader
from borzoi.protocol.catalog import decode_request
from borzoi.protocol.commands.groups import Groups
from borzoi.protocol.commands.offsets import ConsumerOffset
from borzoi.protocol.commands.streams import Streams
from borzoi.protocol.commands.tokens import Tokens
from borzoi.protocol.commands.topics import TopicInfo
from borzoi.protocol.commands.users import UserDetails, Users
from borzoi.security.access_tokens import token_hash
from borzoi.security.encryption import Cipher
from borzoi.security.passwords import verify_password
from borzoi.storage.info import Info, read_info
from borzoi.storage.layout import partition_directory
from borzoi.storage.log import open_log
from borzoi.storage.offsets import OffsetWriter, open_offsets
from borzoi.storage.state_log import open_state_log
from borzoi.tools.importing import import_iggy

CASES = ["basic", "rotation", "encrypted", "metadata"]
NOW = 1_800_000_000_000_000
MEDIUM = LenientMedium()


def cipher_of(case: str) -> Cipher | None:
    return Cipher(GOLDEN_KEY) if case == "encrypted" else None


def imported(case: str, tmp_path: Path, *, source: Path | None = None, **options):
    target = tmp_path / "data"
    report = import_iggy(
        source or GOLDEN_DATA / case / "data",
        target,
        version="0.1.0",
        now=NOW,
        cipher=cipher_of(case),
        **options,
    )
    return target, report


def metadata_of(target: Path, case: str):
    log, recovered = open_state_log(MEDIUM, target, cipher=cipher_of(case))
    assert recovered.entries == []
    assert recovered.snapshot is not None
    assert log.next_index == recovered.snapshot.index + 1
    return snapshot.decode(recovered.snapshot.body)


def recorded(case: str):
    """(request, answer payload, status) until the first step that changes something."""
    for line in (GOLDEN_DATA / case / "expected-after-restart.jsonl").read_text().splitlines():
        step = json.loads(line)
        if step["command"] in ("send_messages", "delete_segments", "create_stream"):
            return
        payload = bytes.fromhex(step["request_hex"])[8:]
        request = decode_request(step["code"], payload)
        yield step, request, bytes.fromhex(step["response_payload_hex"])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("link", [False, True])
def test_segments_and_offsets_are_byte_for_byte_the_same(case, link, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(GOLDEN_DATA / case / "data", source)
    before = {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    target, report = imported(case, tmp_path, source=source, link=link)
    theirs = {
        path.relative_to(source) for path in (source / "streams").rglob("*") if path.is_file()
    }
    ours = {path.relative_to(target) for path in (target / "streams").rglob("*") if path.is_file()}
    assert ours == theirs
    for name in ours:
        assert (target / name).read_bytes() == before[source / name]
    assert {path: path.read_bytes() for path in before} == before
    assert report.segments == sum(name.suffix == ".log" for name in ours)
    assert report.offsets == sum("offsets" in name.parts for name in ours)
    assert report.warnings == []
    assert (report.linked_bytes > 0) == (link and case == "rotation")


def test_only_sealed_segments_are_linked(tmp_path):
    source = tmp_path / "source"
    shutil.copytree(GOLDEN_DATA / "rotation/data", source)
    target, _ = imported("rotation", tmp_path, source=source, link=True)
    place = partition_directory(target, Namespace(0, 0, 0))
    links = {path.name: path.stat().st_nlink for path in place.glob("*.log")}
    assert links == {
        "00000000000000000000.log": 2,
        "00000000000000000008.log": 2,
        "00000000000000000016.log": 1,
    }


@pytest.mark.parametrize("case", CASES)
def test_streams_topics_groups_users_and_tokens_are_what_the_server_answers(case, tmp_path):
    target, _ = imported(case, tmp_path)
    state = metadata_of(target, case)
    asked = set()
    user_of: dict[str, int] = {}
    for step, request, payload in recorded(case):
        reader = Reader(payload)
        asked.add(step["command"])
        match step["command"]:
            case "login_user":
                user = queries.user(state, request.username)
                right = verify_password(user.password_hash, request.password)
                assert right == (step["response_status"] != 42)
                assert (user.status == 2) == (step["response_status"] == 47)
                if step["response_status"] == 0:
                    assert user.id == reader.u32()
                    user_of[step["conn"]] = user.id
            case "login_with_personal_access_token":
                owner = queries.token_owner(state, token_hash(request.token))
                assert (owner is not None) == (step["response_status"] == 0)
                if owner is not None:
                    assert owner[0].id == reader.u32()
            case "get_streams":
                assert [
                    (s.id, s.name, s.created_at, s.topics_count)
                    for s in Streams.decode(reader).streams
                ] == [(s.id, s.name, s.created_at, len(s.topics)) for s in state.streams.in_order()]
            case "get_topic":
                expected = TopicInfo.decode(reader)
                topic = queries.topic(state, request.stream_id, request.topic_id)
                assert (topic.id, topic.name, topic.created_at, len(topic.partitions)) == (
                    expected.id,
                    expected.name,
                    expected.created_at,
                    expected.partitions_count,
                )
                # The raw 0 there is a defect of that server: it means "as configured".
                assert topic.message_expiry == (expected.message_expiry or 2**64 - 1)
                assert topic.max_topic_size == (expected.max_topic_size or 2**64 - 1)
                assert topic.compression == expected.compression
                assert topic.replication_factor == (expected.replication_factor or 1)
            case "get_consumer_groups":
                topic = queries.topic(state, request.stream_id, request.topic_id)
                assert [(g.id, g.name) for g in Groups.decode(reader).groups] == [
                    (g.id, g.name) for g in topic.groups.in_order()
                ]
            case "get_users":
                assert [
                    (u.id, u.username, u.status, u.created_at) for u in Users.decode(reader).users
                ] == [(u.id, u.username, u.status, u.created_at) for u in state.users.in_order()]
            case "get_user":
                details = UserDetails.decode(reader)
                assert queries.user(state, request.user_id).permissions == details.permissions
            case "get_personal_access_tokens":
                tokens = queries.tokens_of(state, user_of[step["conn"]])
                assert {(t.name, t.expiry_at) for t in Tokens.decode(reader).tokens} == {
                    (t.name, t.expiry_at) for t in tokens
                }
    assert {"login_user", "get_topic"} <= asked


@pytest.mark.parametrize("case", ["basic", "rotation", "encrypted"])
def test_messages_and_offsets_read_as_the_server_answers(case, tmp_path):
    target, report = imported(case, tmp_path)
    state = metadata_of(target, case)
    polls = 0
    for step, request, payload in recorded(case):
        if step["command"] not in ("poll_messages", "get_consumer_offset"):
            continue
        topic = queries.topic(state, request.stream_id, request.topic_id)
        stream = queries.stream(state, request.stream_id)
        place = partition_directory(target, Namespace(stream.id, topic.id, request.partition_id))
        if step["command"] == "get_consumer_offset":
            offsets = open_offsets(place, OffsetWriter(MEDIUM))
            consumer = request.consumer
            key = (
                consumer_key(consumer.id)
                if consumer.kind == ConsumerKind.CONSUMER
                else queries.group_of(topic, consumer.id).id
            )
            stored = offsets.load(consumer.kind, key)
            expected = ConsumerOffset.decode(Reader(payload)).stored_offset if payload else None
            assert stored == expected
            continue
        start = {
            PollingKind.OFFSET: request.strategy.value,
            PollingKind.FIRST: 0,
            PollingKind.LAST: report.messages - request.count,
        }.get(request.strategy.kind)
        if start is None or (request.strategy.kind is PollingKind.LAST and case == "basic"):
            continue
        reading = open_log(place, MEDIUM).read(start, request.count)
        found = reading.materialise()
        if case == "encrypted":
            found = bytes(decrypted(memoryview(found), Cipher(GOLDEN_KEY)).messages)
        assert found == payload[16:]
        assert reading.count == int.from_bytes(payload[12:16], "little")
        polls += 1
    assert report.messages == {"basic": 10, "rotation": 20, "encrypted": 4}[case]
    assert polls == {"basic": 2, "rotation": 8, "encrypted": 1}[case]


def test_revoked_http_tokens_come_along(tmp_path):
    target, _ = imported("metadata", tmp_path)
    revoked = json.loads((target / "revoked_tokens.json").read_text())
    assert revoked == {"01a1e111-a5f6-7a12-bead-64ea4951fa78": 1794780992}


def test_the_new_directory_is_one_of_ours(tmp_path):
    target, report = imported("basic", tmp_path)
    assert read_info(MEDIUM, target) == Info("0.1.0", NOW, 1)
    assert (report.streams, report.topics, report.partitions, report.groups) == (1, 1, 2, 1)
    assert (report.users, report.tokens, report.entries) == (1, 0, 4)
    assert sorted(path.name for path in target.iterdir()) == [
        "info.json",
        "state.messages",
        "state.snapshot",
        "streams",
    ]


def test_an_encrypted_source_stays_encrypted_and_needs_its_key(tmp_path):
    target, _ = imported("encrypted", tmp_path)
    assert b"bob" not in (target / "state.snapshot").read_bytes()
    with pytest.raises(CannotDecrypt):
        open_state_log(MEDIUM, target)
    with pytest.raises(StateCorrupted, match="needs its key"):
        import_iggy(GOLDEN_DATA / "encrypted/data", tmp_path / "other", version="0.1.0", now=NOW)
    assert not (tmp_path / "other").exists()


def test_a_directory_that_is_not_empty_is_never_written_to(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/precious").write_text("mine")
    with pytest.raises(InvalidConfiguration, match="not empty"):
        imported("basic", tmp_path)
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["precious"]


def test_an_empty_target_and_the_remains_of_an_interrupted_import_are_no_obstacle(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data.importing").mkdir()
    (tmp_path / "data.importing/half").write_text("a segment")
    target, _ = imported("basic", tmp_path)
    assert not (target / "half").exists()
    assert not (tmp_path / "data.importing").exists()


@pytest.mark.parametrize("missing", ["", "state"])
def test_a_source_of_another_kind_is_refused(tmp_path, missing):
    (tmp_path / "source" / missing).mkdir(parents=True)
    with pytest.raises(InvalidConfiguration, match="not a data directory of an Iggy"):
        imported("basic", tmp_path, source=tmp_path / "source")


def test_a_log_without_entries_is_refused(tmp_path):
    (tmp_path / "source/state").mkdir(parents=True)
    (tmp_path / "source/state/log").write_bytes(b"")
    with pytest.raises(StateCorrupted, match="holds no entry"):
        imported("basic", tmp_path, source=tmp_path / "source")


def test_what_cannot_be_brought_over_is_told(tmp_path):
    source = tmp_path / "source"
    shutil.copytree(GOLDEN_DATA / "basic/data", source)
    partitions = source / "streams/0/topics/0/partitions"
    shutil.copytree(partitions / "0", partitions / "9")
    shutil.rmtree(partitions / "1")
    (partitions / "0/00000000000000000000.index").rename(
        partitions / "0/00000000000000000077.index"
    )
    (partitions / "0/notes.txt").write_text("hello")
    (source / "state/tokens").write_bytes(b"\x81")
    with (source / "state/log").open("ab") as log:
        log.write(bytes(10))
    seen = []
    target, report = imported(
        "basic", tmp_path, source=source, progress=lambda *about: seen.append(about)
    )
    text = "\n".join(report.warnings)
    assert "10 bytes of an entry that was never completed" in text
    assert "partition 0/0/1 has no directory there" in text
    assert "00000000000000000000.index is missing; it will be rebuilt" in text
    assert "00000000000000000077.index has no log" in text
    assert "notes.txt is not part of the log" in text
    assert "partitions/9 belongs to no partition" in text
    assert "revoked tokens cannot be read" in text
    assert len(report.warnings) == 7
    assert seen == [(Namespace(0, 0, 0), 0, 2), (Namespace(0, 0, 1), 1, 2)]
    assert open_log(partition_directory(target, Namespace(0, 0, 0)), MEDIUM).messages_count == 5


def test_a_failing_disk_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(*_args, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copy2", full)
    with pytest.raises(StorageFailure, match="No space left"):
        imported("basic", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_without_links_between_file_systems_segments_are_copied(tmp_path, monkeypatch):
    def refuse(*_args):
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    _, report = imported("rotation", tmp_path, link=True)
    assert report.linked_bytes == 0
    assert report.segments == 3
