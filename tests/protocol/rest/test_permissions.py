import json

import msgspec
import pytest
from hypothesis import given
from tests.support.wire_strategies import optional_permissions

from borzoi.model.users import (
    ALL_PERMISSIONS,
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)
from borzoi.protocol.rest.permissions import (
    PermissionsDocument,
    permissions_document,
    permissions_of,
)


@given(optional_permissions)
def test_permissions_survive_json(permissions: Permissions | None) -> None:
    text = msgspec.json.encode(permissions_document(permissions))
    assert permissions_of(msgspec.json.decode(text, type=PermissionsDocument | None)) == permissions


def test_no_streams_and_no_topics_are_null() -> None:
    document = json.loads(msgspec.json.encode(permissions_document(ALL_PERMISSIONS)))
    assert document["streams"] is None
    assert set(document["global"].values()) == {True}
    one = Permissions(GlobalPermissions(), {7: StreamPermissions(read_stream=True)})
    document = json.loads(msgspec.json.encode(permissions_document(one)))
    assert document["streams"]["7"]["topics"] is None


def test_streams_and_topics_are_keyed_by_number_in_order() -> None:
    topics = {2: TopicPermissions(send_messages=True), 1: TopicPermissions()}
    permissions = Permissions(
        streams={10: StreamPermissions(), 9: StreamPermissions(topics=topics)}
    )
    document = json.loads(msgspec.json.encode(permissions_document(permissions)))
    assert list(document["streams"]) == ["9", "10"]
    assert list(document["streams"]["9"]["topics"]) == ["1", "2"]


@pytest.mark.parametrize(
    "text",
    [
        '{"global": {"read_streams": true}}',
        '{"streams": null}',
        '{"global": {}, "streams": {"x": {}}}',
        '{"global": {}, "streams": {"-1": {}}}',
    ],
)
def test_every_flag_has_to_be_given(text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=PermissionsDocument)
