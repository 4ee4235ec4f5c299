"""What the files hold, as rows that a person or a program can read.

A row is a plain dict: its `kind` says what it is about, the rest is fit for JSON. Damaged messages
have rows as well, with the reason in the place of the content.
"""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np

from borzoi.metadata import snapshot
from borzoi.metadata.commands import decode_command
from borzoi.model.errors import BorzoiError, CannotDecrypt, StateCorrupted, StorageFailure
from borzoi.model.limits import HEADER_BYTES, INDEX_ENTRY_BYTES
from borzoi.records.header import unpack_header
from borzoi.records.user_headers import decode_user_headers
from borzoi.records.validation import INDEX_DTYPE
from borzoi.security.encryption import Cipher
from borzoi.storage.layout import INDEX_SUFFIX, LOG_SUFFIX, TWIN_SUFFIXES
from borzoi.storage.media import File, Medium, content_of
from borzoi.storage.state_entry import TornTail, read_entries
from borzoi.storage.state_log import STATE_LOG_NAME
from borzoi.storage.state_snapshot import SNAPSHOT_NAME, read_snapshot
from borzoi.tools.partition_inspection import SegmentFiles, read_index, reader_of, segment_files
from borzoi.tools.soundness import Lost, Sound, look_through

Row: TypeAlias = dict[str, Any]

#: Secret fields of commands and snapshots; they are never shown, hashed or not.
SECRETS: Final = frozenset({"password_hash", "token_hash", "password", "token"})
HIDDEN: Final = "(hidden)"


def dump(
    medium: Medium,
    path: Path,
    *,
    first_offset: int = 0,
    count: int | None = None,
    cipher: Cipher | None = None,
) -> Iterator[Row]:
    """The rows of a file or of a directory: a partition's messages, or the metadata of a server."""
    if path.name == STATE_LOG_NAME:
        yield from _dump_state_log(medium, path, cipher)
    elif path.name == SNAPSHOT_NAME:
        yield from _dump_snapshot(medium, path.parent, cipher)
    elif path.suffix == INDEX_SUFFIX:
        yield from _dump_index(medium, path, first_offset, count)
    elif path.is_dir() and medium.exists(path / STATE_LOG_NAME):
        yield from _dump_snapshot(medium, path, cipher)
        yield from _dump_state_log(medium, path / STATE_LOG_NAME, cipher)
    else:
        directory = path if path.is_dir() else path.parent
        segments = [
            segment
            for segment in segment_files(medium, directory)
            if path.is_dir() or segment.messages == path
        ]
        if not segments:
            raise StorageFailure(
                f"{path} is neither a data directory, nor a partition, nor one of their files:"
                f" {STATE_LOG_NAME}, {SNAPSHOT_NAME}, *{INDEX_SUFFIX}, *{LOG_SUFFIX} and"
                f" *{LOG_SUFFIX}{{{','.join(TWIN_SUFFIXES)}}}"
            )
        yield from _dump_messages(medium, segments, first_offset, count, cipher)


def _dump_messages(
    medium: Medium,
    segments: list[SegmentFiles],
    first_offset: int,
    count: int | None,
    cipher: Cipher | None,
) -> Iterator[Row]:
    end = None if count is None else max(first_offset, segments[0].start_offset) + count
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        if following is not None and following.start_offset <= first_offset:
            continue
        if end is not None and segment.start_offset >= end:
            return
        read, size = reader_of(medium, segment)
        index = read_index(medium, segment) or b""
        for run in look_through(read, size, segment.start_offset, index):
            if end is not None and run.first_offset >= end:
                return
            if isinstance(run, Lost):
                yield _lost_row(segment, run)
            else:
                yield from _message_rows(segment, run, first_offset, end, cipher)


def _message_rows(
    segment: SegmentFiles, run: Sound, first_offset: int, end: int | None, cipher: Cipher | None
) -> Iterator[Row]:
    for number, (start, stop) in enumerate(run.batch.bounds()):
        offset = run.first_offset + number
        if offset < first_offset:
            continue
        if end is not None and offset >= end:
            return
        message = run.batch.messages[start:stop]
        header = unpack_header(message)
        body = HEADER_BYTES + header.payload_length
        row: Row = {
            "kind": "message",
            "offset": offset,
            "timestamp": header.timestamp,
            "origin_timestamp": header.origin_timestamp,
            "id": f"{header.id:032x}",
            "checksum": f"{header.checksum:016x}",
            "file": segment.messages.name,
            "position": run.position + start,
            "bytes": len(message),
        }
        try:
            payload, headers = bytes(message[HEADER_BYTES:body]), bytes(message[body:])
            if cipher is not None:
                payload = cipher.decrypt(payload)
                headers = cipher.decrypt(headers) if headers else b""
            row |= _shown("payload", payload)
            if headers:
                row["headers"] = _shown_headers(headers)
        except CannotDecrypt as error:
            row["undecryptable"] = str(error)
        yield row


def _lost_row(segment: SegmentFiles, lost: Lost) -> Row:
    return {
        "kind": "zeros" if lost.is_blank else "damage",
        "offset": lost.first_offset,
        "messages": lost.count,
        "file": segment.messages.name,
        "position": lost.position,
        "bytes": lost.length,
        "reason": lost.reason,
    }


def _shown(name: str, content: bytes) -> Row:
    """Text as text, anything else as base64 under a name that says so."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = ""
    if text.isprintable() and (text or not content):
        return {name: text}
    return {f"{name}_base64": base64.b64encode(content).decode()}


def _shown_headers(encoded: bytes) -> Any:
    try:
        return {
            str(key.value): str(value.value) for key, value in decode_user_headers(encoded).items()
        }
    except BorzoiError:
        return base64.b64encode(encoded).decode()


def _dump_index(medium: Medium, path: Path, first: int, count: int | None) -> Iterator[Row]:
    with medium.open(path, writable=False) as file:
        yield from _index_rows(file, path, first, count)


def _index_rows(file: File, path: Path, first: int, count: int | None) -> Iterator[Row]:
    whole = file.size() // INDEX_ENTRY_BYTES
    start_offset = int(path.stem) if path.stem.isdecimal() else 0
    number = max(first - start_offset, 0)
    end = whole if count is None else min(number + count, whole)
    while number < end:
        taken = min(end - number, 4096)
        content = file.read(taken * INDEX_ENTRY_BYTES, number * INDEX_ENTRY_BYTES)
        for entry in np.frombuffer(content, INDEX_DTYPE):
            yield {
                "kind": "index",
                "offset": start_offset + int(entry["offset"]),
                "end": int(entry["position"]),
                "timestamp": int(entry["timestamp"]),
            }
        number += taken
    rest = file.size() % INDEX_ENTRY_BYTES
    if rest and count is None:
        yield {"kind": "damage", "position": whole * INDEX_ENTRY_BYTES, "bytes": rest,
               "reason": "not a whole entry"}  # fmt: skip


def _dump_state_log(medium: Medium, path: Path, cipher: Cipher | None) -> Iterator[Row]:
    for entry in read_entries(content_of(medium, path), cipher=cipher):
        if isinstance(entry, TornTail):
            yield {"kind": "damage", "position": entry.position, "bytes": entry.length,
                   "reason": entry.reason}  # fmt: skip
            return
        row: Row = {
            "kind": "entry",
            "index": entry.index,
            "term": entry.term,
            "timestamp": entry.timestamp,
            "user_id": entry.user_id,
            "code": entry.code,
        }
        try:
            command = decode_command(entry.code, entry.command)
            row["command"] = type(command).__name__
            row["fields"] = _without_secrets(msgspec.to_builtins(command, enc_hook=dict))
        except StateCorrupted as error:
            row["reason"] = str(error)
        yield row


def _dump_snapshot(medium: Medium, directory: Path, cipher: Cipher | None) -> Iterator[Row]:
    taken = read_snapshot(medium, directory, cipher)
    if taken is None:
        return
    snapshot.decode(taken.body)  # refuses what it cannot vouch for
    _, state = msgspec.msgpack.decode(taken.body)
    yield {
        "kind": "snapshot",
        "index": taken.index,
        "term": taken.term,
        "timestamp": taken.timestamp,
        "state": _without_secrets(state),
    }


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            str(key): HIDDEN if key in SECRETS else _without_secrets(inner)
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_without_secrets(inner) for inner in value]
    return value
