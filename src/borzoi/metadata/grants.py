"""Permission entries: in one order, and ending with the thing they are about.

Ids are given out again. An entry that outlived its stream or topic would grant access
to the next one with the same id, so entries are deleted with what they name.
"""

from msgspec.structs import replace

from borzoi.metadata.state import Metadata, User
from borzoi.model.users import Permissions


def by_id(permissions: Permissions | None) -> Permissions | None:
    """The same permissions with their entries by ascending id: equal states have equal bytes."""
    if permissions is None or not permissions.streams:
        return permissions
    streams = {
        stream_id: replace(entry, topics=dict(sorted(entry.topics.items())))
        for stream_id, entry in sorted(permissions.streams.items())
    }
    return replace(permissions, streams=streams)


def withdraw_stream(state: Metadata, stream_id: int) -> None:
    """No user keeps an entry for this stream."""
    for user in state.users.values():
        permissions = user.permissions
        if permissions is not None and stream_id in permissions.streams:
            user.permissions = _without_stream(permissions, stream_id)


def withdraw_topic(state: Metadata, stream_id: int, topic_id: int) -> None:
    """No user keeps an entry for this topic; entries for its stream stay."""
    for user in state.users.values():
        if user.permissions is not None:
            _withdraw_topic_from(user, user.permissions, stream_id, topic_id)


def _without_stream(permissions: Permissions, stream_id: int) -> Permissions:
    streams = {key: entry for key, entry in permissions.streams.items() if key != stream_id}
    return replace(permissions, streams=streams)


def _withdraw_topic_from(
    user: User, permissions: Permissions, stream_id: int, topic_id: int
) -> None:
    entry = permissions.streams.get(stream_id)
    if entry is None or topic_id not in entry.topics:
        return
    topics = {key: flags for key, flags in entry.topics.items() if key != topic_id}
    streams = {**permissions.streams, stream_id: replace(entry, topics=topics)}
    user.permissions = replace(permissions, streams=streams)
