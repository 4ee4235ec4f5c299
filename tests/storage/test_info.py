import json

import pytest
from tests.support.faults import Fault, FaultyMedium

from borzoi.model.errors import DiskFull, InvalidConfiguration, StateCorrupted
from borzoi.storage.info import DATA_FORMAT, Info, open_info, read_info
from borzoi.storage.local import LocalMedium

MEDIUM = LocalMedium()

FULL = {"write": Fault.NO_SPACE}


def test_a_new_directory_is_described_in_json(tmp_path):
    info = open_info(MEDIUM, tmp_path / "data", version="0.1.0", now=5)
    assert info == Info("0.1.0", 5, DATA_FORMAT)
    assert json.loads((tmp_path / "data/info.json").read_bytes()) == {
        "version": "0.1.0",
        "created_at": 5,
        "format": DATA_FORMAT,
    }


def test_the_day_of_creation_outlives_upgrades(tmp_path, caplog):
    caplog.set_level("INFO")
    open_info(MEDIUM, tmp_path, version="0.1.0", now=5)
    written = (tmp_path / "info.json").stat().st_mtime_ns
    assert open_info(MEDIUM, tmp_path, version="0.1.0", now=6).created_at == 5
    assert (tmp_path / "info.json").stat().st_mtime_ns == written
    assert open_info(MEDIUM, tmp_path, version="0.2.0", now=7) == Info("0.2.0", 5, DATA_FORMAT)
    assert read_info(MEDIUM, tmp_path) == Info("0.2.0", 5, DATA_FORMAT)
    assert "was last used by borzoi 0.1.0, now by 0.2.0" in caplog.text


def test_a_newer_format_is_refused_with_a_sentence_that_names_both_versions(tmp_path):
    before = b'{"version":"9.1.0","created_at":5,"format":%d}' % (DATA_FORMAT + 1)
    (tmp_path / "info.json").write_bytes(before)
    with pytest.raises(InvalidConfiguration, match=r"borzoi 9\.1\.0 in data format 2; this is"):
        open_info(MEDIUM, tmp_path, version="0.1.0", now=6)
    assert (tmp_path / "info.json").read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"version":"1"}', b"\xff\xfe", bytes(50)])
def test_an_unreadable_file_is_refused_by_its_name(tmp_path, content):
    (tmp_path / "info.json").write_bytes(content)
    with pytest.raises(StateCorrupted, match=r"info\.json cannot be read"):
        open_info(MEDIUM, tmp_path, version="0.1.0", now=6)


def test_fields_of_a_later_version_are_no_reason_to_refuse(tmp_path):
    (tmp_path / "info.json").write_bytes(
        b'{"version":"0.1.0","created_at":5,"format":1,"colour":"red"}'
    )
    assert open_info(MEDIUM, tmp_path, version="0.1.0", now=6).created_at == 5


def test_a_directory_of_another_server_is_refused_and_the_way_to_import_it_named(tmp_path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state/log").write_bytes(b"")
    with pytest.raises(InvalidConfiguration, match="borzoi import iggy"):
        open_info(MEDIUM, tmp_path, version="0.1.0", now=6)
    assert not (tmp_path / "info.json").exists()


def test_an_upgrade_on_a_full_disk_is_no_reason_not_to_start(tmp_path, caplog):
    medium = LocalMedium()
    open_info(medium, tmp_path, version="0.1.0", now=7)
    full = FaultyMedium(medium, lambda operation, _: FULL.get(operation))
    assert open_info(full, tmp_path, version="0.2.0", now=8).created_at == 7
    assert "No space left on device" in caplog.text
    assert read_info(medium, tmp_path) == Info("0.1.0", 7, DATA_FORMAT)
    with pytest.raises(DiskFull, match=r"info\.json"):
        open_info(full, tmp_path / "new", version="0.2.0", now=8)
