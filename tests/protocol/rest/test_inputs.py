from typing import Any

import msgspec
import pytest
from tests.support.rest_inputs import arguments, read

from borzoi.model.errors import (
    BorzoiError,
    InvalidCommand,
    InvalidGroupName,
    InvalidIdentifier,
    InvalidReplicationFactor,
    InvalidStreamName,
    InvalidTopicName,
    TooManyPartitions,
)
from borzoi.model.limits import U32_MAX, U64_MAX
from borzoi.model.topics import Compression
from borzoi.model.users import UserStatus
from borzoi.protocol.rest import inputs
from borzoi.protocol.rest.inputs import Input

TOPIC = {"compression_algorithm": "none", "message_expiry": 0, "max_topic_size": 0, "name": "t"}


def test_a_login_may_leave_out_who_its_client_is() -> None:
    assert arguments(inputs.LoginInput, username="u", password="p", extra=1) == {
        "username": "u",
        "password": "p",
        "version": "",
        "context": "",
    }


def test_a_login_without_a_name_is_rejected() -> None:
    with pytest.raises(InvalidIdentifier):
        arguments(inputs.LoginInput, username="", password="p")


def test_the_status_of_a_user_is_a_word() -> None:
    created = arguments(inputs.CreateUserInput, username="u", password="p", status="inactive")
    assert created["status"] is UserStatus.INACTIVE
    assert arguments(inputs.UpdateUserInput) == {"username": None, "status": None}
    assert arguments(inputs.UpdateUserInput, status="active")["status"] is UserStatus.ACTIVE


def test_a_topic_gets_its_settings_by_word_and_number() -> None:
    assert arguments(inputs.TopicInput, **TOPIC | {"compression_algorithm": "GZip"}) == {
        "name": "t",
        "compression": Compression.GZIP,
        "message_expiry": 0,
        "max_topic_size": 0,
        "replication_factor": 0,
    }
    assert (
        arguments(inputs.CreateTopicInput, **TOPIC, partitions_count=1000)["partitions_count"]
        == 1000
    )


@pytest.mark.parametrize(
    ("shape", "fields"),
    [
        (inputs.LoginInput, {"username": "u"}),
        (inputs.LoginInput, {"username": 1, "password": "p"}),
        (inputs.CreateUserInput, {"username": "u", "password": "p", "status": "Active"}),
        (inputs.CreateUserInput, {"username": "u", "password": "p", "status": 1}),
        (inputs.UpdateUserInput, {"status": "nope"}),
        (inputs.SnapshotInput, {"compression": "stored", "snapshot_types": []}),
        (inputs.SnapshotInput, {"compression": "Stored", "snapshot_types": ["all"]}),
        (inputs.TopicInput, TOPIC | {"compression_algorithm": "rust"}),
        (inputs.TopicInput, TOPIC | {"message_expiry": "1 h"}),
        (inputs.TopicInput, TOPIC | {"max_topic_size": U64_MAX + 1}),
        (inputs.TopicInput, TOPIC | {"replication_factor": 256}),
        (inputs.CreateTopicInput, TOPIC),
        (inputs.CreateTopicInput, TOPIC | {"partitions_count": U32_MAX + 1}),
        (inputs.CreateTopicInput, TOPIC | {"partitions_count": 1, "message_expiry": -1}),
        (inputs.TokenNameInput, {"name": "n", "expiry": U64_MAX + 1}),
    ],
)
def test_the_wrong_shape_is_refused(shape: type[Input[Any]], fields: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        read(shape, **fields)


@pytest.mark.parametrize(
    ("shape", "fields", "fault"),
    [
        (inputs.StreamInput, {"name": ""}, InvalidStreamName),
        (inputs.StreamInput, {"name": "é" * 128}, InvalidStreamName),
        (inputs.TopicInput, TOPIC | {"name": ""}, InvalidTopicName),
        (inputs.TopicInput, TOPIC | {"replication_factor": 0}, InvalidReplicationFactor),
        (inputs.CreateTopicInput, TOPIC | {"partitions_count": 1001}, TooManyPartitions),
        (inputs.PartitionsInput, {"partitions_count": 0}, TooManyPartitions),
        (inputs.PartitionsInput, {"partitions_count": 1001}, TooManyPartitions),
        (inputs.GroupInput, {"name": "x" * 256}, InvalidGroupName),
        (
            inputs.SnapshotInput,
            {"compression": "Stored", "snapshot_types": ["All", "Test"]},
            InvalidCommand,
        ),
    ],
)
def test_what_the_protocol_has_a_status_for_is_refused_with_it(
    shape: type[Input[Any]], fields: dict[str, Any], fault: type[BorzoiError]
) -> None:
    with pytest.raises(fault):
        arguments(shape, **fields)
