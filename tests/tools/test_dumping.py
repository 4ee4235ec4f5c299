import json
import random
from pathlib import Path

import pytest
from tests.support.golden import GOLDEN_DATA, GOLDEN_KEY
from tests.support.lenient import LenientMedium

from borzoi.metadata import snapshot
from borzoi.metadata.commands import encode_command
from borzoi.metadata.machine import Entry, apply
from borzoi.metadata.state import Metadata
from borzoi.metadata.users import root_creation
from borzoi.model.errors import StorageFailure
from borzoi.protocol.commands.streams import CreateStream
from borzoi.records.batch import stamp, walk
from borzoi.records.header import HEADER
from borzoi.security.encryption import Cipher
from borzoi.storage.state_log import open_state_log
from borzoi.tools.dumping import HIDDEN, dump

MEDIUM = LenientMedium()


def place(case: str, partition: int = 0) -> Path:
    return GOLDEN_DATA / case / f"data/streams/0/topics/0/partitions/{partition}"


def rows(path: Path, **options) -> list[dict]:
    found = list(dump(MEDIUM, path, **options))
    assert json.loads(json.dumps(found)) == found
    return found


def copy(case: str, target: Path) -> Path:
    target.mkdir()
    for path in place(case).glob("0*"):
        (target / path.name).write_bytes(path.read_bytes())
    return target


def test_messages_are_rows_with_all_that_their_header_says():
    found = rows(place("basic"))
    assert [row["offset"] for row in found] == [0, 1, 2, 3, 4]
    assert {row["kind"] for row in found} == {"message"}
    first = found[0]
    assert first["id"] == f"{1:032x}"
    assert first["origin_timestamp"] == 1_700_000_000_000_000
    assert (first["position"], first["file"]) == (0, "00000000000000000000.log")
    assert sum("headers" in row for row in found) == 2


def test_only_what_is_asked_for_is_shown_across_segments():
    offsets = [row["offset"] for row in rows(place("rotation"), first_offset=6, count=4)]
    assert offsets == [6, 7, 8, 9]
    assert [r["offset"] for r in rows(place("rotation"), first_offset=18)] == [18, 19]
    one = place("rotation") / "00000000000000000008.log"
    assert [row["offset"] for row in rows(one)] == list(range(8, 16))
    assert rows(place("rotation"), first_offset=100) == []


def test_encrypted_messages_are_opened_with_their_key():
    payloads = [row.get("payload") for row in rows(place("encrypted"), cipher=Cipher(GOLDEN_KEY))]
    assert payloads == ["secret-0", "secret-1", "", "secret-3" * 10]
    assert all("payload_base64" in row for row in rows(place("encrypted")))
    other = Cipher("AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=")
    assert all("undecryptable" in row for row in rows(place("encrypted"), cipher=other))


def test_damage_and_zeros_have_rows_of_their_own(tmp_path):
    target = copy("basic", tmp_path / "p")
    log = target / "00000000000000000000.log"
    content = bytearray(log.read_bytes())
    content[64] ^= 1
    log.write_bytes(content + bytes(100))
    found = rows(target)
    assert [row["kind"] for row in found] == ["damage", *["message"] * 4, "zeros"]
    assert found[0]["reason"] == "its checksum does not fit"


def test_headers_that_no_client_wrote_are_shown_as_bytes(tmp_path):
    message = bytearray(HEADER.pack(0, bytes(16), 0, 0, 0, 3, 2, 0) + b"\xff\xfe" + b"bad")
    stamp(walk(memoryview(message)), base_offset=0, timestamp=1, new_ids=lambda n: bytes(16 * n))
    (tmp_path / f"{0:020}.log").write_bytes(message)
    (row,) = rows(tmp_path)
    assert (row["headers"], row["payload_base64"]) == ("YmFk", "//4=")


def test_an_index_is_shown_entry_by_entry(tmp_path):
    target = copy("rotation", tmp_path / "p")
    index = target / "00000000000000000008.index"
    found = rows(index)
    assert [row["offset"] for row in found] == list(range(8, 16))
    assert found[-1]["end"] == (target / "00000000000000000008.log").stat().st_size
    assert [row["offset"] for row in rows(index, first_offset=10, count=2)] == [10, 11]
    index.write_bytes(index.read_bytes() + b"abc")
    assert rows(index)[-1]["kind"] == "damage"


@pytest.mark.parametrize("cipher", [None, Cipher(GOLDEN_KEY)])
def test_the_metadata_is_shown_without_its_secrets(tmp_path, cipher):
    log, _ = open_state_log(MEDIUM, tmp_path, cipher=cipher)
    state = Metadata()
    for command in (root_creation("iggy", "$argon2id$secret"), CreateStream("orders")):
        code, body = encode_command(command)
        log.append(timestamp=5, user_id=0, code=code, command=body)
        apply(state, Entry(5, 0, command))
    found = rows(tmp_path, cipher=cipher)
    assert [row["command"] for row in found] == ["SealedCreateUser", "CreateStream"]
    assert found[0]["fields"]["password_hash"] == HIDDEN
    assert found[1]["fields"] == {"name": "orders"}
    log.take_snapshot(snapshot.encode(state), timestamp=9)
    log.append(timestamp=6, user_id=0, code=202, command=b"\xc1")
    taken, entry = rows(tmp_path, cipher=cipher)
    assert "$argon2id" not in json.dumps(taken)
    assert taken["state"]["streams"][0]["name"] == "orders"
    assert "cannot be read" in entry["reason"]
    assert rows(tmp_path / "state.snapshot", cipher=cipher) == [taken]
    with (tmp_path / "state.messages").open("ab") as file:
        file.write(random.Random(1).randbytes(20))
    assert rows(tmp_path / "state.messages", cipher=cipher)[-1]["kind"] == "damage"


def test_anything_else_is_refused_with_what_can_be_shown(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    for path in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(StorageFailure, match="neither a data directory, nor a partition"):
            rows(path)
