import stat

import pytest

from borzoi.cli import home
from borzoi.cli.faults import CommandFailed, Exit


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("BORZOI_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(home, "_key_store", lambda: None)
    return tmp_path / "home"


def test_where_it_is(monkeypatch, place):
    assert home.home() == place
    monkeypatch.delenv("BORZOI_HOME")
    monkeypatch.setenv("IGGY_HOME", "/elsewhere")
    assert str(home.home()) == "/elsewhere"
    monkeypatch.delenv("IGGY_HOME")
    assert home.home().name == ".borzoi"


def test_nothing_is_written_before_there_is_something_to_keep(place):
    assert home.contexts() == {"default": {}}
    assert home.active_name() == "default"
    assert home.session_token("a:1") is None
    assert not place.exists()


def test_a_context_is_kept_with_what_was_said(place):
    home.create_context("prod", {"username": 'a"b', "transport": None, "tcp_tls_enabled": True})
    home.use_context("prod")
    assert home.active_context() == {"username": 'a"b', "tcp_tls_enabled": True}
    home.delete_context("prod")
    assert home.active_name() == "default"


def test_only_the_owner_may_read(place):
    home.create_context("prod", {"password": "secret"})
    home.keep_token("a:1", "t", "secret")
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    for file in (home.CONTEXTS, home.TOKENS):
        assert stat.S_IMODE((place / file).stat().st_mode) == 0o600
    assert {file.name for file in place.iterdir()} == {home.CONTEXTS, home.TOKENS}


def test_keys_of_later_versions_are_kept(place):
    place.mkdir()
    (place / home.CONTEXTS).write_text('[prod]\nusername = "a"\nlater = 7\n')
    home.create_context("other", {})
    assert home.contexts()["prod"] == {"username": "a", "later": 7}


def test_tokens_belong_to_a_server_and_a_name():
    home.keep_token("a:1", "one", "x")
    home.keep_token("a:1", home.SESSION, "y")
    home.keep_token("b:1", "one", "z")
    home.forget_token("a:1", "one")
    home.forget_token("a:1", "absent")
    assert home.stored_token("a:1", "one") is None
    assert home.session_token("a:1") == "y"
    assert home.stored_token("b:1", "one") == "z"


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: home.create_context("a b", {}), Exit.INVALID),
        (lambda: home.create_context("default", {}), Exit.ALREADY_EXISTS),
        (lambda: home.delete_context("default"), Exit.INVALID),
        (lambda: home.delete_context("absent"), Exit.NOT_FOUND),
        (lambda: home.use_context("absent"), Exit.NOT_FOUND),
    ],
)
def test_what_cannot_be_is_refused(call, code):
    with pytest.raises(CommandFailed) as caught:
        call()
    assert caught.value.exit_code == code


def test_a_broken_file_is_named(place):
    place.mkdir()
    (place / home.CONTEXTS).write_text("[prod\n")
    with pytest.raises(CommandFailed, match=r"contexts\.toml is not valid TOML"):
        home.contexts()


def test_an_active_context_that_is_gone_is_an_error(place):
    place.mkdir()
    (place / home.ACTIVE).write_text("gone\n")
    with pytest.raises(CommandFailed, match="'gone' does not exist"):
        home.active_context()


class Store:
    def __init__(self):
        self.kept = {}

    def get_password(self, service, name):
        return self.kept.get((service, name))

    def set_password(self, service, name, token):
        self.kept[service, name] = token

    def delete_password(self, service, name):
        del self.kept[service, name]


def test_a_key_store_is_used_where_there_is_one(monkeypatch, place):
    store = Store()
    monkeypatch.setattr(home, "_key_store", lambda: store)
    home.keep_token("a:1", "t", "secret")
    assert home.stored_token("a:1", "t") == "secret"
    home.forget_token("a:1", "t")
    assert store.kept == {}
    assert not place.exists()
