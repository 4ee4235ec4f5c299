import shutil
from pathlib import Path

import pytest
from tests.support.golden import GOLDEN_DATA, GOLDEN_KEY

from borzoi.model.namespace import Namespace
from borzoi.security.encryption import Cipher
from borzoi.storage.local import LocalMedium
from borzoi.tools.findings import Finding, Progress, Severity
from borzoi.tools.importing import import_iggy
from borzoi.tools.inspection import (
    is_data_directory,
    namespace_of,
    partition_directories,
    total_bytes,
    verify,
)

MEDIUM = LocalMedium()


def imported(case: str, target: Path) -> Path:
    cipher = Cipher(GOLDEN_KEY) if case == "encrypted" else None
    import_iggy(GOLDEN_DATA / case / "data", target, version="0.1.0", now=10**15 * 2, cipher=cipher)
    return target


def findings(directory: Path, cipher: Cipher | None = None) -> list[Finding]:
    return [f for f in verify(MEDIUM, directory, cipher=cipher) if isinstance(f, Finding)]


@pytest.mark.parametrize(
    ("case", "messages"), [("basic", 10), ("rotation", 20), ("encrypted", 4), ("metadata", 0)]
)
def test_what_the_published_servers_wrote_is_sound(case, messages, tmp_path):
    target = imported(case, tmp_path / "data")
    found = list(verify(MEDIUM, target, cipher=Cipher(GOLDEN_KEY)))
    assert [f for f in found if isinstance(f, Finding)] == []
    assert sum(p.messages for p in found if isinstance(p, Progress)) == messages


def test_a_partition_can_be_looked_at_alone(tmp_path):
    target = imported("rotation", tmp_path / "data")
    place = target / "streams/0/topics/0/partitions/0"
    assert findings(place) == []
    log = place / "00000000000000000008.log"
    content = bytearray(log.read_bytes())
    content[500] ^= 1
    log.write_bytes(content)
    assert [f.severity for f in findings(place)] == [Severity.DAMAGE]
    assert findings(place) == findings(target)


def test_directories_and_metadata_must_agree(tmp_path):
    target = imported("basic", tmp_path / "data")
    partitions = target / "streams/0/topics/0/partitions"
    shutil.move(partitions / "1", partitions / "7")
    first, second = findings(target)
    assert "partition 0/0/1 of the metadata has no directory" in first.what
    assert (second.path, second.what) == (
        partitions / "7",
        "belongs to no partition of the metadata",
    )


def test_an_encrypted_directory_without_its_key_is_checked_as_far_as_it_can_be(tmp_path):
    target = imported("encrypted", tmp_path / "data")
    (finding,) = findings(target)
    assert finding.severity is Severity.WARNING
    assert "no encryption key is configured" in finding.what
    log = target / "streams/0/topics/0/partitions/0/00000000000000000000.log"
    content = bytearray(log.read_bytes())
    content[70] ^= 1
    log.write_bytes(content)
    assert Severity.DAMAGE in {f.severity for f in findings(target)}


def test_a_data_directory_is_known_by_its_files(tmp_path):
    assert not is_data_directory(MEDIUM, tmp_path)
    (tmp_path / "state.messages").write_bytes(b"")
    assert is_data_directory(MEDIUM, tmp_path)


def test_partitions_are_found_by_what_they_hold_whatever_the_folders_are_called(tmp_path):
    for name in ("s/0/t/1/p/2", "s/0/t/1/p/10"):
        (tmp_path / name / "offsets/consumers").mkdir(parents=True)
    (tmp_path / "logs").mkdir()
    (tmp_path / "s/trash/7/t/0/p/0/offsets").mkdir(parents=True)
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone/00000000000000000000.log.zst").write_bytes(b"12345")
    found = partition_directories(tmp_path)
    assert {path.relative_to(tmp_path).as_posix() for path in found} == {
        "s/0/t/1/p/2",
        "s/0/t/1/p/10",
        "alone",
    }
    assert total_bytes(tmp_path) == 5


def test_the_address_of_a_partition_is_read_from_its_path():
    assert namespace_of(Path("/d/streams/3/topics/1/partitions/12")) == Namespace(3, 1, 12)
    assert namespace_of(Path("/d/streams/3/topics/x/partitions/12")) is None
    assert namespace_of(Path("12")) is None
