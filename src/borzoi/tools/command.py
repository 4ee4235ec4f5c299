"""``borzoi log`` and ``borzoi import``: looking after a data directory while no server runs on it.

The work is done in `storage/`; here are the options, the progress bar and the exit status:
0 when all is well, 1 when something was found or left undone, 2 when the tool could not work.
"""

import fcntl
import json
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from borzoi import __version__
from borzoi.model.namespace import Namespace
from borzoi.security.encryption import Cipher
from borzoi.server.data_directory import LOCK_NAME, DataDirectory
from borzoi.storage.local import LocalMedium
from borzoi.tools.dumping import Row, dump
from borzoi.tools.findings import Finding, Progress, Severity
from borzoi.tools.importing import ImportReport, import_iggy
from borzoi.tools.inspection import (
    BACKUP_DIRECTORY,
    is_data_directory,
    partition_directories,
    total_bytes,
    verify,
)
from borzoi.tools.repairing import Repair, plan_repairs
from borzoi.tools.terminal import COULD_NOT, FOUND, progress_bar, report_errors

COLOURS: Final = {Severity.NOTE: "cyan", Severity.WARNING: "yellow", Severity.DAMAGE: "red"}

existing = click.Path(exists=True, path_type=Path)
directory_argument = click.argument(
    "directory", type=click.Path(exists=True, file_okay=False, path_type=Path)
)
key_option = click.option(
    "--encryption-key",
    envvar=["BORZOI_SYSTEM_ENCRYPTION_KEY", "IGGY_SYSTEM_ENCRYPTION_KEY"],
    help="Base64 of the 32-byte key, when the data is encrypted; better given by the variable"
    " BORZOI_SYSTEM_ENCRYPTION_KEY, which other users cannot see.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")


@click.group()
def log() -> None:
    """Check, show and repair stored messages and metadata."""


@log.command("verify")
@directory_argument
@key_option
@json_option
@report_errors
def verify_command(directory: Path, encryption_key: str | None, as_json: bool) -> None:
    """Read everything in DIRECTORY and hold it against its checksums.

    DIRECTORY is a data directory or that of one partition. Every message, every index entry and
    every metadata entry is read; nothing is changed. The exit status is 1 when anything is wrong.
    """
    if _is_in_use(directory):
        click.echo("note: a server uses this directory; what it writes now may look torn", err=True)
    _refuse_if_nothing_is_there(directory)
    seen = _Tally()
    with progress_bar("reading", total_bytes(directory)) as advance:
        for found in verify(LocalMedium(), directory, cipher=_cipher(encryption_key)):
            seen.count(found)
            if isinstance(found, Progress):
                advance(found.read_bytes)
            else:
                _tell_finding(found, as_json)
    if as_json:
        click.echo(json.dumps({"kind": "summary", **seen.as_row()}))
    else:
        click.echo(seen.sentence())
    sys.exit(FOUND if seen.is_bad else 0)


@log.command("dump")
@click.argument("path", type=existing)
@click.option("--from", "first_offset", default=0, help="The first message to show.")
@click.option("--count", type=click.IntRange(min=0), help="How many to show at most.")
@key_option
@json_option
@report_errors
def dump_command(
    path: Path, first_offset: int, count: int | None, encryption_key: str | None, as_json: bool
) -> None:
    """Show what PATH holds: a partition, the metadata of a server, or one of their files."""
    rows = dump(
        LocalMedium(), path, first_offset=first_offset, count=count, cipher=_cipher(encryption_key)
    )
    for row in rows:
        click.echo(json.dumps(row, ensure_ascii=False) if as_json else _line_of(row))


@log.command("repair")
@directory_argument
@click.option("--yes", is_flag=True, help="Do it; without this the plan is only shown.")
@key_option
@report_errors
def repair_command(directory: Path, yes: bool, encryption_key: str | None) -> None:
    """Say what can be done about damage in DIRECTORY, and with --yes do it.

    A message that cannot be read is replaced by an empty one, so that all others keep their
    offsets. Whatever is replaced or cut off is kept under DIRECTORY/backup.
    """
    _refuse_if_nothing_is_there(directory)
    backup = directory / BACKUP_DIRECTORY / f"repair-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    repairs: list[Repair] = []
    hopeless = 0
    with _alone_in(directory) if yes else nullcontext():
        with progress_bar("looking for damage", total_bytes(directory)) as advance:
            plan = plan_repairs(LocalMedium(), directory, backup, cipher=_cipher(encryption_key))
            for found in plan:
                if isinstance(found, Repair):
                    repairs.append(found)
                elif isinstance(found, Progress):
                    advance(found.read_bytes)
                else:
                    hopeless += 1
                    _tell_finding(found, as_json=False)
        for repair in repairs:
            click.echo(f"{repair.path}\n  {repair.what}" + _told_loss(repair.loses))
            if yes:
                repair.carry_out()
                click.echo("  done")
    if not repairs:
        click.echo("there is nothing that could be repaired" if hopeless else "nothing is damaged")
    elif yes:
        click.echo(f"{len(repairs)} repairs were made; what they replaced is in {backup}")
    else:
        click.echo(f"nothing was changed; `borzoi log repair --yes {directory}` does the above")
    sys.exit(FOUND if hopeless or (repairs and not yes) else 0)


@click.group("import")
def import_() -> None:
    """Take over the data of another server."""


@import_.command("iggy")
@directory_argument
@click.option(
    "--to",
    "target",
    required=True,
    type=click.Path(path_type=Path),
    help="A new or empty directory.",
)
@click.option("--link", is_flag=True, help="Link sealed segments instead of copying them.")
@click.option("--verify/--no-verify", "check", default=True, help="Read all of it afterwards.")
@key_option
@report_errors
def import_iggy_command(
    directory: Path, target: Path, link: bool, check: bool, encryption_key: str | None
) -> None:
    """Make a data directory out of DIRECTORY, which an Apache Iggy 0.8 server wrote.

    That server must be stopped; its directory is only read. Streams, topics, partitions, groups,
    users, permissions, tokens and offsets keep their ids and dates, messages their bytes.
    """
    cipher = _cipher(encryption_key)
    with progress_bar("bringing over", None) as advance:

        def brought(namespace: Namespace, number: int, count: int) -> None:
            advance(1, count, f"partition {namespace}")

        report = import_iggy(
            directory,
            target,
            version=__version__,
            now=time.time_ns() // 1000,
            cipher=cipher,
            link=link,
            progress=brought,
        )
    for warning in report.warnings:
        click.secho(f"warning: {warning}", fg="yellow")
    click.echo(_told_import(report, target))
    if not check:
        return
    seen = _Tally()
    with progress_bar("reading", total_bytes(target)) as advance:
        for found in verify(LocalMedium(), target, cipher=cipher):
            seen.count(found)
            if isinstance(found, Progress):
                advance(found.read_bytes)
            else:
                _tell_finding(found, as_json=False)
    click.echo(seen.sentence())
    sys.exit(FOUND if seen.is_bad else 0)


class _Tally:
    """What an inspection came to."""

    def __init__(self) -> None:
        self.messages = self.entries = self.read_bytes = 0
        self.by_severity = dict.fromkeys(Severity, 0)

    def count(self, found: Finding | Progress) -> None:
        if isinstance(found, Finding):
            self.by_severity[found.severity] += 1
            return
        self.messages += found.messages
        self.entries += found.entries
        self.read_bytes += found.read_bytes

    @property
    def is_bad(self) -> bool:
        return any(self.by_severity[s] for s in (Severity.WARNING, Severity.DAMAGE))

    def as_row(self) -> Row:
        counts = {f"{s.name.lower()}s": number for s, number in self.by_severity.items()}
        return {
            "messages": self.messages,
            "entries": self.entries,
            "bytes": self.read_bytes,
            **counts,
        }

    def sentence(self) -> str:
        looked = (
            f"{self.messages:,} messages and {self.entries:,} metadata entries in"
            f" {self.read_bytes:,} bytes"
        )
        if not self.is_bad:
            return f"{looked}: all sound"
        damage, warnings = self.by_severity[Severity.DAMAGE], self.by_severity[Severity.WARNING]
        return f"{looked}: {damage} damaged, {warnings} warnings; see `borzoi log repair`"


def _cipher(key: str | None) -> Cipher | None:
    return Cipher(key) if key else None


def _tell_finding(finding: Finding, as_json: bool) -> None:
    if as_json:
        row = {
            "kind": finding.severity.name.lower(),
            "path": str(finding.path),
            "position": finding.position,
            "offset": finding.offset,
            "what": finding.what,
        }
        click.echo(json.dumps(row, ensure_ascii=False))
        return
    label = click.style(f"{finding.severity.name.lower():7}", fg=COLOURS[finding.severity])
    click.echo(f"{label} {finding}")


def _line_of(row: Row) -> str:
    """A row for people: what it is, when, and the rest as name=value."""
    rest = dict(row)
    kind = rest.pop("kind")
    number = rest.pop("offset", rest.pop("index", None))
    at = rest.pop("timestamp", 0)
    when = f" {datetime.fromtimestamp(at / 1e6, UTC):%Y-%m-%d %H:%M:%S.%f}" if at else ""
    fields = " ".join(
        f"{name}={value if isinstance(value, int) else json.dumps(value, ensure_ascii=False)}"
        for name, value in rest.items()
        if value is not None
    )
    return f"{kind}{'' if number is None else f' {number}'}{when}  {fields}"


def _told_loss(count: int) -> str:
    if not count:
        return ""
    return f"\n  {count} message{' is' if count == 1 else 's are'} lost for good"


def _told_import(report: ImportReport, target: Path) -> str:
    linked = f" ({report.linked_bytes:,} of them linked)" if report.linked_bytes else ""
    return (
        f"{target}: {report.streams} streams, {report.topics} topics, {report.partitions}"
        f" partitions, {report.groups} groups, {report.users} users, {report.tokens} tokens,"
        f" {report.offsets} consumer offsets, {report.segments} segments with {report.messages:,}"
        f" messages in {report.bytes:,} bytes{linked}"
    )


def _refuse_if_nothing_is_there(directory: Path) -> None:
    if not is_data_directory(LocalMedium(), directory) and not partition_directories(directory):
        click.echo(f"error: {directory} holds neither metadata nor a partition", err=True)
        sys.exit(COULD_NOT)


def _data_directory_of(directory: Path) -> Path | None:
    """The data directory that `directory` is, or lies in."""
    medium = LocalMedium()
    for place in (directory.absolute(), *directory.absolute().parents):
        if is_data_directory(medium, place):
            return place
    return None


def _is_in_use(directory: Path) -> bool:
    root = _data_directory_of(directory)
    if root is None or not (root / LOCK_NAME).exists():
        return False
    with (root / LOCK_NAME).open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def _alone_in(directory: Path) -> AbstractContextManager[object]:
    """Keeps servers out; `DirectoryInUse` when one is in."""
    root = _data_directory_of(directory)
    return nullcontext() if root is None else DataDirectory(root)
