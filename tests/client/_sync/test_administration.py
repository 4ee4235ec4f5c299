# Made by tools/unasync.py from tests/client/_async/test_administration.py: edit that one.
"""A method for each command that is not about messages, against a real server."""

from datetime import timedelta

import pytest
from tests.support.transports import every_transport, with_sessions

from borzoi.client import Client
from borzoi.model.errors import (
    InvalidCredentials,
    ResourceNotFound,
    StreamNameTaken,
    StreamNotFound,
    TopicNameTaken,
    Unauthenticated,
    Unauthorized,
)
from borzoi.model.limits import NEVER, UNLIMITED
from borzoi.model.system import NodeRole, SnapshotKind
from borzoi.model.topics import Compression
from borzoi.model.users import GlobalPermissions, Permissions, UserStatus


@every_transport
def test_the_server_tells_about_itself(client) -> None:
    client.ping()
    stats = client.get_stats()
    assert stats.process_id > 0
    metadata = client.get_cluster_metadata()
    assert [node.role for node in metadata.nodes] == [NodeRole.LEADER]
    assert (client.get_snapshot([SnapshotKind.RESOURCE_USAGE])).startswith(b"PK")


@with_sessions
def test_a_client_finds_itself_among_the_others(client) -> None:
    me = client.get_me()
    assert me.user_id == 0
    assert client.get_client(me.client_id) == me
    assert me.client_id in {each.client_id for each in client.get_clients()}
    assert client.get_client(me.client_id ^ 1) is None


@every_transport
def test_users_come_change_and_go(client, url: str) -> None:
    may_read = Permissions(GlobalPermissions(read_streams=True))
    made = client.create_user("reader", "secret", permissions=may_read)
    try:
        assert client.get_user("reader") == made
        assert client.get_user(made.id) == made
        assert "reader" in {user.username for user in client.get_users()}
        client.update_user("reader", username="inspector")
        client.change_password(made.id, "secret", "new secret")
        with Client(url) as other:
            assert other.login_user("inspector", "new secret") == made.id
            other.get_streams()
            with pytest.raises(Unauthorized):
                other.create_stream("not mine")
            client.update_permissions(made.id, None)
            with pytest.raises(Unauthorized):
                other.get_streams()
        client.update_user(made.id, status=UserStatus.INACTIVE)
        assert (client.get_user(made.id)).status is UserStatus.INACTIVE
    finally:
        client.delete_user(made.id)
    assert client.get_user("inspector") is None


@every_transport
def test_a_wrong_password_is_told_at_once(client) -> None:
    with pytest.raises(InvalidCredentials) as caught:
        client.login_user("iggy", "not it")
    assert (caught.value.code, caught.value.name) == (42, "invalid_credentials")


@every_transport
def test_who_logged_out_is_not_logged_in_again_by_itself(client) -> None:
    client.logout_user()
    client.ping()
    with pytest.raises(Unauthenticated):
        client.get_streams()
    assert client.login_user("iggy", "iggy") == 0
    client.get_streams()


@every_transport
def test_a_token_logs_in_until_it_is_deleted(client, url: str) -> None:
    token = client.create_personal_access_token("for-a-test", expiry=timedelta(hours=1))
    (info,) = client.get_personal_access_tokens()
    assert info.name == "for-a-test"
    assert info.expiry_at > 0
    with Client(url.replace("iggy:iggy", token)) as other:
        assert "iggy" in {user.username for user in other.get_users()}
        assert other.login_with_personal_access_token(token) == 0
    client.delete_personal_access_token("for-a-test")
    with pytest.raises(ResourceNotFound):
        client.login_with_personal_access_token(token)


@every_transport
def test_streams_come_change_and_go(client, stream: str) -> None:
    found = client.get_stream(stream)
    assert found.name == stream
    assert client.get_stream(found.id) == found
    assert stream in {each.name for each in client.get_streams()}
    with pytest.raises(StreamNameTaken) as caught:
        client.create_stream(stream)
    assert caught.value.code == 1012
    client.update_stream(found.id, f"{stream}-renamed")
    assert client.get_stream(stream) is None
    client.purge_stream(found.id)
    client.delete_stream(found.id)
    with pytest.raises(StreamNotFound):
        client.delete_stream(found.id)


@every_transport
def test_topics_come_change_and_go(client, stream: str) -> None:
    made = client.create_topic(
        (stream, "events"),
        partitions=3,
        compression=Compression.GZIP,
        message_expiry="7 days",
        max_size="10 GiB",
    )
    assert [partition.id for partition in made.partitions] == [0, 1, 2]
    assert made.compression is Compression.GZIP
    assert made.message_expiry == 7 * 24 * 3600 * 1_000_000
    assert made.max_topic_size == 10 << 30
    assert (client.get_topic(f"{stream}/events")).name == "events"
    assert client.get_topic((stream, made.id)) == client.get_topic(f"{stream}/events")
    assert [each.name for each in client.get_topics(stream)] == ["events"]
    with pytest.raises(TopicNameTaken):
        client.create_topic(f"{stream}/events")
    client.update_topic(
        f"{stream}/events", "facts", message_expiry="never_expire", max_size="unlimited"
    )
    changed = client.get_topic(f"{stream}/facts")
    assert (changed.message_expiry, changed.max_topic_size) == (NEVER, UNLIMITED)
    client.create_partitions(f"{stream}/facts", 2)
    assert (client.get_topic(f"{stream}/facts")).partitions_count == 5
    client.delete_partitions(f"{stream}/facts", 4)
    assert (client.get_topic(f"{stream}/facts")).partitions_count == 1
    client.delete_segments(f"{stream}/facts", 0, 1)
    client.purge_topic(f"{stream}/facts")
    client.delete_topic(f"{stream}/facts")
    assert client.get_topic(f"{stream}/facts") is None


@with_sessions
def test_groups_are_made_joined_left_and_deleted(client, topic: str) -> None:
    made = client.create_consumer_group(topic, "billing")
    assert [group.name for group in client.get_consumer_groups(topic)] == ["billing"]
    client.join_consumer_group(topic, "billing")
    (member,) = (client.get_consumer_group(topic, made.id)).members
    assert member.partitions == (0, 1)
    client.leave_consumer_group(topic, "billing")
    assert (client.get_consumer_group(topic, "billing")).members == ()
    client.delete_consumer_group(topic, "billing")
    assert client.get_consumer_group(topic, "billing") is None
