"""A method for each command that is not about messages, against a real server."""

from datetime import timedelta

import pytest
from tests.support.transports import every_transport, with_sessions

from borzoi.client import AsyncClient
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
async def test_the_server_tells_about_itself(client) -> None:
    await client.ping()
    stats = await client.get_stats()
    assert stats.process_id > 0
    metadata = await client.get_cluster_metadata()
    assert [node.role for node in metadata.nodes] == [NodeRole.LEADER]
    assert (await client.get_snapshot([SnapshotKind.RESOURCE_USAGE])).startswith(b"PK")


@with_sessions
async def test_a_client_finds_itself_among_the_others(client) -> None:
    me = await client.get_me()
    assert me.user_id == 0
    assert await client.get_client(me.client_id) == me
    assert me.client_id in {each.client_id for each in await client.get_clients()}
    assert await client.get_client(me.client_id ^ 1) is None


@every_transport
async def test_users_come_change_and_go(client, url: str) -> None:
    may_read = Permissions(GlobalPermissions(read_streams=True))
    made = await client.create_user("reader", "secret", permissions=may_read)
    try:
        assert await client.get_user("reader") == made
        assert await client.get_user(made.id) == made
        assert "reader" in {user.username for user in await client.get_users()}
        await client.update_user("reader", username="inspector")
        await client.change_password(made.id, "secret", "new secret")
        async with AsyncClient(url) as other:
            assert await other.login_user("inspector", "new secret") == made.id
            await other.get_streams()
            with pytest.raises(Unauthorized):
                await other.create_stream("not mine")
            await client.update_permissions(made.id, None)
            with pytest.raises(Unauthorized):
                await other.get_streams()
        await client.update_user(made.id, status=UserStatus.INACTIVE)
        assert (await client.get_user(made.id)).status is UserStatus.INACTIVE
    finally:
        await client.delete_user(made.id)
    assert await client.get_user("inspector") is None


@every_transport
async def test_a_wrong_password_is_told_at_once(client) -> None:
    with pytest.raises(InvalidCredentials) as caught:
        await client.login_user("iggy", "not it")
    assert (caught.value.code, caught.value.name) == (42, "invalid_credentials")


@every_transport
async def test_who_logged_out_is_not_logged_in_again_by_itself(client) -> None:
    await client.logout_user()
    await client.ping()
    with pytest.raises(Unauthenticated):
        await client.get_streams()
    assert await client.login_user("iggy", "iggy") == 0
    await client.get_streams()


@every_transport
async def test_a_token_logs_in_until_it_is_deleted(client, url: str) -> None:
    token = await client.create_personal_access_token("for-a-test", expiry=timedelta(hours=1))
    (info,) = await client.get_personal_access_tokens()
    assert info.name == "for-a-test"
    assert info.expiry_at > 0
    async with AsyncClient(url.replace("iggy:iggy", token)) as other:
        assert "iggy" in {user.username for user in await other.get_users()}
        assert await other.login_with_personal_access_token(token) == 0
    await client.delete_personal_access_token("for-a-test")
    with pytest.raises(ResourceNotFound):
        await client.login_with_personal_access_token(token)


@every_transport
async def test_streams_come_change_and_go(client, stream: str) -> None:
    found = await client.get_stream(stream)
    assert found.name == stream
    assert await client.get_stream(found.id) == found
    assert stream in {each.name for each in await client.get_streams()}
    with pytest.raises(StreamNameTaken) as caught:
        await client.create_stream(stream)
    assert caught.value.code == 1012
    await client.update_stream(found.id, f"{stream}-renamed")
    assert await client.get_stream(stream) is None
    await client.purge_stream(found.id)
    await client.delete_stream(found.id)
    with pytest.raises(StreamNotFound):
        await client.delete_stream(found.id)


@every_transport
async def test_topics_come_change_and_go(client, stream: str) -> None:
    made = await client.create_topic(
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
    assert (await client.get_topic(f"{stream}/events")).name == "events"
    assert await client.get_topic((stream, made.id)) == await client.get_topic(f"{stream}/events")
    assert [each.name for each in await client.get_topics(stream)] == ["events"]
    with pytest.raises(TopicNameTaken):
        await client.create_topic(f"{stream}/events")
    await client.update_topic(
        f"{stream}/events", "facts", message_expiry="never_expire", max_size="unlimited"
    )
    changed = await client.get_topic(f"{stream}/facts")
    assert (changed.message_expiry, changed.max_topic_size) == (NEVER, UNLIMITED)
    await client.create_partitions(f"{stream}/facts", 2)
    assert (await client.get_topic(f"{stream}/facts")).partitions_count == 5
    await client.delete_partitions(f"{stream}/facts", 4)
    assert (await client.get_topic(f"{stream}/facts")).partitions_count == 1
    await client.delete_segments(f"{stream}/facts", 0, 1)
    await client.purge_topic(f"{stream}/facts")
    await client.delete_topic(f"{stream}/facts")
    assert await client.get_topic(f"{stream}/facts") is None


@with_sessions
async def test_groups_are_made_joined_left_and_deleted(client, topic: str) -> None:
    made = await client.create_consumer_group(topic, "billing")
    assert [group.name for group in await client.get_consumer_groups(topic)] == ["billing"]
    await client.join_consumer_group(topic, "billing")
    (member,) = (await client.get_consumer_group(topic, made.id)).members
    assert member.partitions == (0, 1)
    await client.leave_consumer_group(topic, "billing")
    assert (await client.get_consumer_group(topic, "billing")).members == ()
    await client.delete_consumer_group(topic, "billing")
    assert await client.get_consumer_group(topic, "billing") is None
