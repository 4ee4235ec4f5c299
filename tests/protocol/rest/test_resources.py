import msgspec

from borzoi.model.limits import U64_MAX
from borzoi.model.topics import Compression
from borzoi.protocol.commands.groups import GroupDetails, GroupMember
from borzoi.protocol.commands.partitions import PartitionInfo
from borzoi.protocol.commands.streams import StreamDetails
from borzoi.protocol.commands.topics import TopicDetails, TopicInfo
from borzoi.protocol.rest.resources import (
    GroupDetailsDocument,
    PartitionDocument,
    StreamDetailsDocument,
    TopicDetailsDocument,
)


def test_a_topic_is_its_settings_its_size_and_its_partitions() -> None:
    partition = PartitionInfo(0, 5, 1, 13, 972, 14)
    topic = TopicDetails(
        1, 2, U64_MAX, Compression.GZIP, 2_147_483_648, 3, 972, 14, "t", (partition,)
    )
    document = TopicDetailsDocument.of(topic)
    assert msgspec.json.encode(document) == (
        b'{"id":1,"created_at":2,"name":"t","size":"972 B","message_expiry":18446744073709551615,'
        b'"compression_algorithm":"gzip","max_topic_size":2147483648,"replication_factor":3,'
        b'"messages_count":14,"partitions_count":1,"partitions":[{"id":0,"created_at":5,'
        b'"segments_count":1,"current_offset":13,"size":"972 B","messages_count":14}]}'
    )
    assert document.response() == topic
    assert document.response().partitions_count == 1


def test_a_stream_is_its_size_and_its_topics() -> None:
    topic = TopicInfo(0, 1, 2, 0, Compression.NONE, 0, 1, 1103, 16, "t")
    stream = StreamDetails(0, 1, 1103, 16, "s", (topic,))
    document = StreamDetailsDocument.of(stream)
    assert (document.size, document.topics_count) == ("1.103 KB", 1)
    assert document.response() == stream


def test_a_group_is_its_members_and_their_partitions() -> None:
    group = GroupDetails(0, 2, "g1", (GroupMember(0, (0, 1)),))
    document = GroupDetailsDocument.of(group)
    assert msgspec.json.encode(document) == (
        b'{"id":0,"name":"g1","partitions_count":2,"members_count":1,'
        b'"members":[{"id":0,"partitions_count":2,"partitions":[0,1]}]}'
    )
    assert document.response() == group


def test_a_size_may_be_a_plain_number() -> None:
    document = PartitionDocument(0, 0, 0, 0, 1103, 0)
    assert document.response().size_bytes == 1103
