"""The metadata log of the published 0.8 servers (`state/log`), read and replayed into ours.

    bytes        field
    0..8         index            u64, from 0
    8..16        term             u64
    16..20       leader_id        u32
    20..24       version          u32, 0.8.0 is 8000, 1.2.3 is 1002003
    24..32       flags            u64
    32..40       timestamp        u64, µs
    40..44       user_id          u32
    44..52       checksum         u64, XXH3-64 of all other fields, the command unencrypted
    52..56       context length   u32, then that many bytes of context
    ..           code             u32
    ..           length           u32, of the command as stored
    ..           command          the binary request, or nonce ‖ ciphertext ‖ tag

Commands that create something carry its id in front: u32 id, u32 length, request. A created token
carries its hash: u32 length, hash, u32 length, request. Passwords are hashes already.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import msgspec
from xxhash import xxh3_64_intdigest

from borzoi.metadata import queries
from borzoi.metadata.commands import LoggedCommand
from borzoi.metadata.machine import Entry, apply
from borzoi.metadata.sealed import (
    SealedChangePassword,
    SealedCreatePersonalAccessToken,
    SealedCreateUser,
)
from borzoi.metadata.slots import Slots
from borzoi.metadata.state import Metadata
from borzoi.metadata.tokens import ExpireTokens, expiry_at
from borzoi.metadata.topics import TopicDefaults, resolved
from borzoi.model.errors import BorzoiError, CannotDecrypt, StateCorrupted
from borzoi.model.limits import U32_MAX
from borzoi.model.value import Value
from borzoi.protocol.buffers import Reader
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.groups import CreateConsumerGroup, DeleteConsumerGroup
from borzoi.protocol.commands.partitions import CreatePartitions, DeletePartitions
from borzoi.protocol.commands.streams import CreateStream, DeleteStream, PurgeStream, UpdateStream
from borzoi.protocol.commands.tokens import CreatePersonalAccessToken, DeletePersonalAccessToken
from borzoi.protocol.commands.topics import CreateTopic, DeleteTopic, PurgeTopic, UpdateTopic
from borzoi.protocol.commands.users import (
    ChangePassword,
    CreateUser,
    DeleteUser,
    UpdatePermissions,
    UpdateUser,
)
from borzoi.security.encryption import Cipher
from borzoi.storage.state_entry import TornTail

HEADER: Final = struct.Struct("<QQIIQQIQI")
assert HEADER.size == 56
COMMAND: Final = struct.Struct("<II")
#: The header without its checksum, as it is hashed.
HASHED: Final = struct.Struct("<QQIIQQII")

#: Topics that left a choice to the server get what a server without settings would choose.
DEFAULTS: Final = TopicDefaults(segment_size=0)


#: Ids are given out one after another there; a gap wider than this is a damaged id, and every id
#: in the gap would have to be remembered as free.
IDS_SKIPPED_MAX: Final = 100_000


class ForeignEntry(Value):
    index: int
    version: int
    timestamp: int
    user_id: int
    code: int
    command: bytes


class Translated(Value):
    """A command of borzoi, and the id that its object had on the other server."""

    command: LoggedCommand
    created_id: int | None = None


Translation: TypeAlias = Callable[[Reader, ForeignEntry], Translated]


def read_foreign_log(
    data: bytes, cipher: Cipher | None = None
) -> Iterator[ForeignEntry | TornTail]:
    """Every entry in order; what is left of one that was cut off comes last.

    `StateCorrupted` when an entry is damaged, `CannotDecrypt` when the log needs another key.
    """
    position = 0
    expected = 0
    while position < len(data):
        end = _end_of_entry(data, position)
        if end is None:
            _refuse_if_followed(data, position, expected, cipher)
            yield TornTail(position, len(data) - position, expected, "it is not complete")
            return
        entry = _entry(data, position, end, cipher)
        if entry.index != expected:
            raise StateCorrupted(
                f"at byte {position} of the foreign metadata log entry {expected} is expected,"
                f" the index reads {entry.index}"
            )
        yield entry
        position = end
        expected += 1


def _refuse_if_followed(data: bytes, position: int, index: int, cipher: Cipher | None) -> None:
    """A whole next entry behind a cut-off one means that its length is damaged."""
    following = (index + 1).to_bytes(8, "little")
    at = data.find(following, position + 1)
    while at >= 0:
        end = _end_of_entry(data, at)
        if end is not None:
            try:
                _entry(data, at, end, cipher)
            except (StateCorrupted, CannotDecrypt):
                pass
            else:
                raise StateCorrupted(
                    f"entry {index} of the foreign metadata log, at byte {position}, is damaged:"
                    f" a whole entry follows at byte {at}"
                )
        at = data.find(following, at + 1)


def _end_of_entry(data: bytes, position: int) -> int | None:
    if len(data) - position < HEADER.size + COMMAND.size:
        return None
    context_length = HEADER.unpack_from(data, position)[8]
    at = position + HEADER.size + context_length
    if len(data) - at < COMMAND.size:
        return None
    end: int = at + COMMAND.size + COMMAND.unpack_from(data, at)[1]
    return end if end <= len(data) else None


def _entry(data: bytes, position: int, end: int, cipher: Cipher | None) -> ForeignEntry:
    index, term, leader_id, version, flags, timestamp, user_id, checksum, context_length = (
        HEADER.unpack_from(data, position)
    )
    start = position + HEADER.size
    context = data[start : start + context_length]
    start += context_length
    code, _ = COMMAND.unpack_from(data, start)
    stored = data[start + COMMAND.size : end]

    def holds(command: bytes) -> bool:
        head = HASHED.pack(
            index, term, leader_id, version, flags, timestamp, user_id, context_length
        )
        hashed = head + context + COMMAND.pack(code, len(command)) + command
        return bool(xxh3_64_intdigest(hashed) == checksum)

    where = f"entry {index} of the foreign metadata log, at byte {position},"
    command = stored
    if not holds(stored):
        # Only the checksum tells whether the command is encrypted, and with which key.
        if cipher is None:
            raise StateCorrupted(
                f"{where} does not fit its checksum: it is damaged, or encrypted and needs its key"
            )
        try:
            command = cipher.decrypt(stored)
        except CannotDecrypt:
            raise CannotDecrypt(f"{where} is damaged or encrypted with another key") from None
        if not holds(command):
            raise StateCorrupted(f"{where} does not fit its checksum")
    return ForeignEntry(index, version, timestamp, user_id, code, command)


def translate(entry: ForeignEntry) -> Translated | None:
    """The entry as a command of borzoi; None for the one that changes no metadata."""
    if entry.code == Code.DELETE_SEGMENTS:
        return None
    reading = _TRANSLATIONS.get(entry.code)
    if reading is None:
        raise StateCorrupted(f"entry {entry.index} of the foreign log has command {entry.code}")
    try:
        return reading(Reader(entry.command), entry)
    except BorzoiError as error:
        raise StateCorrupted(
            f"entry {entry.index} of the foreign log, command {entry.code} of version"
            f" {entry.version}, cannot be read: {error}"
        ) from error


def replay(entries: Iterable[ForeignEntry], *, now: int) -> Metadata:
    """The metadata that the entries amount to, everything under the id it had there."""
    state = Metadata()
    for entry in entries:
        translated = translate(entry)
        if translated is None:
            continue
        command = translated.command
        if isinstance(command, SealedCreatePersonalAccessToken):
            # Expired tokens are not logged as gone there, and their names can be used again.
            apply(state, Entry(entry.timestamp, 0, ExpireTokens(entry.timestamp)))
        try:
            if translated.created_id is not None:
                _reserve(_slots_of(state, command), translated.created_id)
            apply(state, Entry(entry.timestamp, entry.user_id, command))
        except BorzoiError as error:
            raise StateCorrupted(
                f"entry {entry.index} of the foreign log does not fit what came before it: {error}"
            ) from error
    apply(state, Entry(now, 0, ExpireTokens(now)))
    for stream in state.streams.values():
        for topic in stream.topics.values():
            topic.groups.fill_gaps()
        stream.topics.fill_gaps()
    # The order in which ids became free is not kept there either: the lowest is given out first.
    state.streams.fill_gaps()
    state.users.fill_gaps()
    state.check()
    return state


def decode_revoked_tokens(data: bytes) -> dict[str, int]:
    """`state/tokens`: the ids of HTTP tokens that were revoked, and when they expire (seconds)."""
    try:
        # Shorter rewrites leave old bytes behind there, so what follows the map is ignored.
        length = _length_of_map(data)
        return msgspec.msgpack.decode(data[:length], type=dict[str, int])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StateCorrupted(f"the list of revoked tokens cannot be read: {error}") from None


def _slots_of(state: Metadata, command: LoggedCommand) -> Slots[str, Any]:
    """Where the thing that the command creates will be."""
    match command:
        case CreateTopic():
            return queries.stream(state, command.stream_id).topics
        case CreateConsumerGroup():
            return queries.topic(state, command.stream_id, command.topic_id).groups
        case SealedCreateUser():
            return state.users
        case _:
            return state.streams


def _reserve(slots: Slots[str, Any], wanted: int) -> None:
    """Makes `wanted` the id that is given out next."""
    if wanted in slots:
        raise StateCorrupted(f"id {wanted} is in use already")
    known = len(slots) + len(slots.freed)
    if wanted > known + IDS_SKIPPED_MAX:
        raise StateCorrupted(f"id {wanted} is far beyond the {known} that were ever in use")
    slots.freed.extend(range(known, wanted + 1))
    if slots.freed and slots.freed[-1] != wanted:
        slots.freed.remove(wanted)
        slots.freed.append(wanted)


def _length_of_map(data: bytes) -> int:
    """How many bytes of a MessagePack map from text to u64 belong to it."""
    kind = data[0] if data else 0
    if kind == 0xDE:
        count, position = int.from_bytes(data[1:3], "big"), 3
    elif kind == 0xDF:
        count, position = int.from_bytes(data[1:5], "big"), 5
    else:
        count, position = kind & 0x0F, 1
    for _ in range(2 * count):
        if position >= len(data):
            break
        position += _length_of_item(data, position)
    return position


def _length_of_item(data: bytes, position: int) -> int:
    kind = data[position]
    if 0xA0 <= kind < 0xC0:
        return 1 + (kind & 0x1F)
    length_bytes = {0xD9: 1, 0xDA: 2, 0xDB: 4}.get(kind, 0)
    if length_bytes:
        start = position + 1
        return 1 + length_bytes + int.from_bytes(data[start : start + length_bytes], "big")
    return 1 + {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}.get(kind, 0)


def _inner(reader: Reader) -> Reader:
    """The request behind its length."""
    return Reader(reader.bytes(reader.u32()))


def _create_user(reader: Reader, _: ForeignEntry) -> Translated:
    user_id = reader.u32()
    request = CreateUser.decode(_inner(reader))
    return Translated(
        SealedCreateUser(request.username, request.password, request.status, request.permissions),
        user_id,
    )


def _change_password(reader: Reader, _: ForeignEntry) -> Translated:
    request = ChangePassword.decode(reader)
    return Translated(SealedChangePassword(request.user_id, request.new_password))


def _create_token(reader: Reader, entry: ForeignEntry) -> Translated:
    token_hash = reader.str32()
    request = CreatePersonalAccessToken.decode(_inner(reader))
    return Translated(
        SealedCreatePersonalAccessToken(
            request.name,
            token_hash,
            expiry_at(entry.timestamp, request.expiry),
            # Whatever limit was configured there, the token was accepted.
            tokens_max=U32_MAX,
        )
    )


def _create_stream(reader: Reader, _: ForeignEntry) -> Translated:
    stream_id = reader.u32()
    return Translated(CreateStream.decode(_inner(reader)), stream_id)


def _create_topic(reader: Reader, _: ForeignEntry) -> Translated:
    topic_id = reader.u32()
    return Translated(resolved(CreateTopic.decode(_inner(reader)), DEFAULTS), topic_id)


def _update_topic(reader: Reader, _: ForeignEntry) -> Translated:
    return Translated(resolved(UpdateTopic.decode(reader), DEFAULTS))


def _create_group(reader: Reader, _: ForeignEntry) -> Translated:
    group_id = reader.u32()
    return Translated(CreateConsumerGroup.decode(_inner(reader)), group_id)


def _as_it_is(
    kind: type[
        DeleteUser
        | UpdateUser
        | UpdatePermissions
        | DeletePersonalAccessToken
        | DeleteStream
        | UpdateStream
        | PurgeStream
        | DeleteTopic
        | PurgeTopic
        | CreatePartitions
        | DeletePartitions
        | DeleteConsumerGroup
    ],
) -> Translation:
    return lambda reader, _: Translated(kind.decode(reader))


# fmt: off
_TRANSLATIONS: Final[Mapping[int, Translation]] = MappingProxyType({
    Code.CREATE_USER:                  _create_user,
    Code.DELETE_USER:                  _as_it_is(DeleteUser),
    Code.UPDATE_USER:                  _as_it_is(UpdateUser),
    Code.UPDATE_PERMISSIONS:           _as_it_is(UpdatePermissions),
    Code.CHANGE_PASSWORD:              _change_password,
    Code.CREATE_PERSONAL_ACCESS_TOKEN: _create_token,
    Code.DELETE_PERSONAL_ACCESS_TOKEN: _as_it_is(DeletePersonalAccessToken),
    Code.CREATE_STREAM:                _create_stream,
    Code.DELETE_STREAM:                _as_it_is(DeleteStream),
    Code.UPDATE_STREAM:                _as_it_is(UpdateStream),
    Code.PURGE_STREAM:                 _as_it_is(PurgeStream),
    Code.CREATE_TOPIC:                 _create_topic,
    Code.DELETE_TOPIC:                 _as_it_is(DeleteTopic),
    Code.UPDATE_TOPIC:                 _update_topic,
    Code.PURGE_TOPIC:                  _as_it_is(PurgeTopic),
    Code.CREATE_PARTITIONS:            _as_it_is(CreatePartitions),
    Code.DELETE_PARTITIONS:            _as_it_is(DeletePartitions),
    Code.CREATE_CONSUMER_GROUP:        _create_group,
    Code.DELETE_CONSUMER_GROUP:        _as_it_is(DeleteConsumerGroup),
})
# fmt: on
