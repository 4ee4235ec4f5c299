"""What the command line stores between calls: contexts and tokens.

::

    $BORZOI_HOME, else $IGGY_HOME, else ~/.borzoi      mode 0700
        contexts.toml        name → connection options and credentials; mode 0600
        .active_context      the name in use
        tokens.toml          server address → tokens by name, those of logins included; mode 0600

Where the package ``keyring`` is installed and has a key store, tokens go there instead.
Keys that this version does not know are kept.
"""

import contextlib
import json
import logging
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from borzoi.cli.faults import CommandFailed, Exit

CONTEXTS: Final = "contexts.toml"
ACTIVE: Final = ".active_context"
TOKENS: Final = "tokens.toml"
DEFAULT: Final = "default"
NAME: Final = re.compile(r"[A-Za-z0-9_-]+\Z")
SERVICE: Final = "borzoi"
#: The name of the token that `borzoi login` creates.
SESSION: Final = "borzoi-cli-session"

#: What a context may hold, all as text, but for the flag.
CONTEXT_KEYS: Final = (
    "transport",
    "tcp_server_address",
    "http_api_url",
    "quic_server_address",
    "websocket_server_address",
    "tcp_tls_enabled",
    "username",
    "password",
    "token",
    "token_name",
)

Table = dict[str, dict[str, Any]]

log = logging.getLogger(__name__)


def home() -> Path:
    named = os.environ.get("BORZOI_HOME") or os.environ.get("IGGY_HOME")
    return Path(named) if named else Path.home() / ".borzoi"


def contexts() -> Table:
    """All contexts by name; `default` is always there."""
    return {DEFAULT: {}, **_read(home() / CONTEXTS)}


def active_name() -> str:
    try:
        name = (home() / ACTIVE).read_text("utf-8").strip()
    except OSError:
        return DEFAULT
    return name or DEFAULT


def active_context() -> Mapping[str, Any]:
    """The options of the context in use; an active name without a context is an error."""
    name = active_name()
    found = contexts().get(name)
    if found is None:
        raise CommandFailed(
            f"the active context {name!r} does not exist",
            Exit.NOT_FOUND,
            "choose another with `borzoi context use NAME`",
        )
    return found


def create_context(name: str, options: Mapping[str, Any]) -> None:
    if not NAME.match(name):
        raise CommandFailed(
            f"the context name {name!r} is wrong: letters, digits, - and _ are allowed",
            Exit.INVALID,
        )
    if name in contexts():
        raise CommandFailed(f"the context {name!r} exists already", Exit.ALREADY_EXISTS)
    stored = _read(home() / CONTEXTS)
    stored[name] = {key: value for key, value in options.items() if value not in (None, False)}
    _write(home() / CONTEXTS, stored)


def delete_context(name: str) -> None:
    if name == DEFAULT:
        raise CommandFailed("the context 'default' cannot be deleted", Exit.INVALID)
    stored = _read(home() / CONTEXTS)
    if name not in stored:
        raise CommandFailed(f"there is no context {name!r}", Exit.NOT_FOUND)
    del stored[name]
    _write(home() / CONTEXTS, stored)
    if active_name() == name:
        use_context(DEFAULT)


def use_context(name: str) -> None:
    if name not in contexts():
        raise CommandFailed(
            f"there is no context {name!r}", Exit.NOT_FOUND, "`borzoi context list` shows them"
        )
    _write_private(home() / ACTIVE, f"{name}\n")


def session_token(address: str) -> str | None:
    """Return the token of a login at the address, if one is stored."""
    return stored_token(address, SESSION)


def stored_token(address: str, name: str) -> str | None:
    """Return a token that was stored under a name."""
    store = _key_store()
    if store is not None:
        with _key_store_may_fail():
            token = store.get_password(f"{SERVICE}:{address}", name)
            return None if token is None else str(token)
    found = _read(home() / TOKENS).get(address, {}).get(name)
    return None if found is None else str(found)


def keep_token(address: str, name: str, token: str) -> None:
    store = _key_store()
    if store is not None:
        with _key_store_may_fail():
            store.set_password(f"{SERVICE}:{address}", name, token)
            return
    stored = _read(home() / TOKENS)
    stored.setdefault(address, {})[name] = token
    _write(home() / TOKENS, stored)


def forget_token(address: str, name: str) -> None:
    store = _key_store()
    if store is not None:
        with _key_store_may_fail():
            store.delete_password(f"{SERVICE}:{address}", name)
    stored = _read(home() / TOKENS)
    if stored.get(address, {}).pop(name, None) is not None:
        _write(home() / TOKENS, stored)


def _key_store() -> Any:
    """Return the module ``keyring`` if it is installed and finds a key store."""
    try:
        import keyring
        from keyring.backends.fail import Keyring as NoKeyStore
    except ImportError:
        return None
    return None if isinstance(keyring.get_keyring(), NoKeyStore) else keyring


@contextlib.contextmanager
def _key_store_may_fail() -> Iterator[None]:
    """Log an error of the key store; the caller goes on with the file.

    A key store that is locked or broken raises whatever its backend raises, and must not stop a
    login.
    """
    try:
        yield
    except Exception as fault:
        log.warning("the key store failed, %s is used instead: %r", TOKENS, fault)


def _read(path: Path) -> Table:
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return {}
    except OSError as fault:
        raise CommandFailed(f"{path} cannot be read: {fault.strerror}") from fault
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise CommandFailed(
            f"{path} is not valid TOML: {fault}", Exit.INVALID, "repair or remove the file"
        ) from fault
    return {name: table for name, table in found.items() if isinstance(table, dict)}


def _write(path: Path, tables: Table) -> None:
    lines = []
    for name, table in sorted(tables.items()):
        lines.append(f"[{json.dumps(name)}]")
        # JSON strings, numbers and booleans are TOML as well.
        lines += [f"{key} = {json.dumps(value)}" for key, value in table.items()]
        lines.append("")
    _write_private(path, "\n".join(lines))


def _write_private(path: Path, text: str) -> None:
    """Replace the file atomically; at no time can anyone but its owner read it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        draft.replace(path)
    except OSError as fault:
        draft.unlink(missing_ok=True)
        raise CommandFailed(f"{path} cannot be written: {fault.strerror}") from fault
