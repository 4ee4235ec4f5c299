"""Which Java runs Spark."""

import subprocess
from pathlib import Path

import pytest

from borzoi.model.errors import FeatureUnavailable
from borzoi.spark import java


def fake_java(directory: Path, version: str) -> Path:
    script = directory / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    script.chmod(0o755)
    return directory


@pytest.mark.parametrize(
    ("text", "version"),
    [('openjdk version "17.0.2" 2022', 17), ('java version "1.8.0_3"', 8), ("none", None)],
)
def test_versions_are_read_in_both_spellings(text: str, version: int | None) -> None:
    assert java.version_in(text) == version


def test_java_home_comes_first_when_it_is_new_enough(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", "21.0.1")
    assert java.find_java_home({"JAVA_HOME": str(home), "PATH": ""}) == home


def test_an_old_java_home_gives_way_to_the_path(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "1.8.0")
    new = fake_java(tmp_path / "new", "17.0.1")
    found = java.find_java_home({"JAVA_HOME": str(old), "PATH": str(new / "bin")})
    assert found == new
    assert java.find_java_home({"PATH": str(new / "bin")}) is None


def test_without_java_the_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "packaged_java", lambda: None)
    with pytest.raises(FeatureUnavailable, match=r"borzoi\[spark-jdk\]"):
        java.find_java_home({"PATH": ""})


def test_the_shim_drops_one_argument_and_keeps_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = tmp_path / "inner"
    inner.write_text('#!/bin/sh\nfor a do echo "$a"; done\n')
    inner.chmod(0o755)
    monkeypatch.setattr(java, "packaged_java", lambda: inner)
    home = java.find_java_home({"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert home is not None
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", ""]
    shown = subprocess.run(
        [home / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    )
    assert shown.stdout.split("\n")[:-1] == ["-cp", "a b", "Main", ""]
    assert java.write_shim(inner, home) == home
