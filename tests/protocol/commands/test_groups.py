"""The bytes of consumer groups."""

import pytest

from borzoi.model.errors import InvalidCommand, InvalidFormat
from borzoi.protocol.buffers import Reader
from borzoi.protocol.catalog import decode_request
from borzoi.protocol.codes import Code
from borzoi.protocol.commands import groups
from borzoi.protocol.contract import encode_payload


@pytest.mark.parametrize(
    ("code", "request_class"),
    [
        (Code.GET_CONSUMER_GROUP, groups.GetConsumerGroup),
        (Code.DELETE_CONSUMER_GROUP, groups.DeleteConsumerGroup),
        (Code.JOIN_CONSUMER_GROUP, groups.JoinConsumerGroup),
        (Code.LEAVE_CONSUMER_GROUP, groups.LeaveConsumerGroup),
    ],
)
def test_a_group_is_named_by_three_identifiers(code, request_class):
    wire = bytes.fromhex("02027331 02027431 010405000000")
    assert encode_payload(request_class("s1", "t1", 5)) == wire
    assert decode_request(code, wire) == request_class("s1", "t1", 5)
    with pytest.raises(InvalidCommand):
        decode_request(code, wire[:8])


def test_groups_are_listed_and_created_under_a_topic():
    where = bytes.fromhex("02027331 02027431")
    assert encode_payload(groups.GetConsumerGroups("s1", "t1")) == where
    assert decode_request(Code.GET_CONSUMER_GROUPS, where) == groups.GetConsumerGroups("s1", "t1")
    created = groups.CreateConsumerGroup("s1", "t1", "g1")
    assert encode_payload(created) == where + b"\x02g1"
    assert decode_request(Code.CREATE_CONSUMER_GROUP, where + b"\x02g1") == created
    with pytest.raises(InvalidFormat):
        decode_request(Code.CREATE_CONSUMER_GROUP, where + b"\x00")


GROUP_WIRE = bytes.fromhex("01000000 03000000 02000000 026731")
MEMBERS_WIRE = bytes.fromhex("00000000 02000000 00000000 02000000 04000000 00000000")


def test_a_group_has_the_published_layout():
    info = groups.GroupInfo(id=1, partitions_count=3, members_count=2, name="g1")
    assert encode_payload(info) == GROUP_WIRE
    assert groups.GroupInfo.decode(Reader(GROUP_WIRE)) == info
    assert groups.Groups.decode(Reader(GROUP_WIRE * 2)) == groups.Groups((info, info))
    assert encode_payload(groups.Groups((info, info))) == GROUP_WIRE * 2


def test_the_details_of_a_group_list_its_members_and_their_partitions():
    details = groups.GroupDetails(
        1, 3, "g1", (groups.GroupMember(0, (0, 2)), groups.GroupMember(4, ()))
    )
    assert details.members_count == 2
    assert details.members[0].partitions_count == 2
    assert encode_payload(details) == GROUP_WIRE + MEMBERS_WIRE
    assert groups.GroupDetails.decode(Reader(GROUP_WIRE + MEMBERS_WIRE)) == details


def test_another_number_of_members_than_claimed_is_a_fault_of_format():
    with pytest.raises(InvalidFormat):
        groups.GroupDetails.decode(Reader(GROUP_WIRE + MEMBERS_WIRE[:16]))


def test_a_member_that_claims_more_partitions_than_follow_is_refused():
    with pytest.raises(InvalidCommand):
        groups.GroupMember.decode(Reader(bytes.fromhex("00000000 ffffffff 00000000")))
