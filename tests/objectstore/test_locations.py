import sys
from pathlib import Path

import pytest
from tests.support.interpreter import run_python

from borzoi.model.errors import FeatureUnavailable, InvalidConfiguration
from borzoi.objectstore.directory import DirectoryStore
from borzoi.objectstore.errors import InvalidKey
from borzoi.objectstore.locations import (
    Location,
    Secrets,
    open_store,
    parse_location,
    secrets_of_profile,
)
from borzoi.objectstore.memory import MemoryStore


@pytest.mark.parametrize(
    ("url", "location"),
    [
        ("s3://bucket", Location("s3", "bucket")),
        ("s3://bucket/a/b", Location("s3", "bucket", "a/b")),
        (
            "s3://bucket/a?endpoint=http://127.0.0.1:8333&region=eu-west-1",
            Location("s3", "bucket", "a", endpoint="http://127.0.0.1:8333", region="eu-west-1"),
        ),
        ("s3://bucket?profile=backup", Location("s3", "bucket", profile="backup")),
        ("gs://bucket/a", Location("gcs", "bucket", "a")),
        ("az://container/a", Location("azure", "container", "a")),
        ("file:///srv/archive", Location("file", prefix="/srv/archive")),
        ("memory://", Location("memory")),
    ],
)
def test_an_address_names_a_store_and_is_shown_as_it_was(url: str, location: Location) -> None:
    assert parse_location(url) == location
    assert str(location) == url


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("bucket", "begins with s3://"),
        ("http://host/bucket", "begins with s3://"),
        ("s3://", "needs a bucket"),
        ("s3:///a", "needs a bucket"),
        ("file://", "needs a directory"),
        ("s3://key:secret@bucket/a", "AWS_SECRET_ACCESS_KEY"),
        ("s3://bucket/a?secret_access_key=x", "is not known"),
        ("s3://bucket?nonsense=1", "is not known"),
    ],
)
def test_a_wrong_address_is_told_in_a_sentence(url: str, text: str) -> None:
    with pytest.raises(InvalidConfiguration, match=text) as raised:
        parse_location(url)
    assert "key:secret" not in str(raised.value)


def test_a_prefix_is_part_of_keys() -> None:
    with pytest.raises(InvalidKey):
        parse_location("s3://bucket/a/../b")


def test_secrets_are_never_shown() -> None:
    location = Location("s3", "bucket", secrets=Secrets("AKIA", "hidden", "token"))
    for shown in (str(location), repr(location), repr(location.secrets)):
        assert "hidden" not in shown
        assert "token" not in shown
        assert "AKIA" not in shown


def test_the_profile_is_read_from_the_file_that_others_use(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_text(
        "[default]\naws_access_key_id = A\naws_secret_access_key = B\n"
        "[temporary]\naws_access_key_id = C\naws_secret_access_key = D\naws_session_token = E\n"
        "[login]\nsso_session = x\n"
    )
    assert secrets_of_profile("default", file) == Secrets("A", "B")
    assert secrets_of_profile("temporary", file) == Secrets("C", "D", "E")
    with pytest.raises(InvalidConfiguration, match="no profile 'other'"):
        secrets_of_profile("other", file)
    with pytest.raises(InvalidConfiguration, match="has no aws_access_key_id"):
        secrets_of_profile("login", file)


def test_local_stores_need_no_library(tmp_path: Path) -> None:
    assert isinstance(open_store(Location("memory")), MemoryStore)
    assert isinstance(open_store(Location("file", prefix=str(tmp_path))), DirectoryStore)
    code = (
        "import sys; from borzoi.objectstore.locations import *;"
        "open_store(parse_location('file:///x')); print('obstore' in sys.modules)"
    )
    done = run_python("-c", code, check=True)
    assert done.stdout == "False\n"


def test_without_the_extra_the_sentence_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "borzoi.objectstore.obstore_opening", None)
    with pytest.raises(FeatureUnavailable, match=r"pip install 'borzoi\[object\]'"):
        open_store(Location("s3", "bucket"))
