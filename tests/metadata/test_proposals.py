import msgspec
import pytest

from borzoi.metadata.groups import JoinGroup
from borzoi.metadata.guards import Allowed, CallerIs, GroupIs, IsNotRoot, MayGrant, UserIs
from borzoi.metadata.permissions import Rule
from borzoi.metadata.proposals import Proposal, decode_proposal, encode_proposal
from borzoi.model.errors import StateCorrupted
from borzoi.model.users import GlobalPermissions, Permissions, StreamPermissions
from borzoi.protocol.commands.topics import CreateTopic

SOME = Permissions(GlobalPermissions(read_servers=True), {1: StreamPermissions(read_stream=True)})


@pytest.mark.parametrize(
    "proposal",
    [
        Proposal(
            CreateTopic("orders", "placed", 3), 7, (CallerIs(4), Allowed(Rule.CREATE_TOPIC, "s"))
        ),
        Proposal(JoinGroup(1, 2, 3, 4), 0, (GroupIs(1, 2, 3, 9), Allowed(Rule.READ_TOPIC, 1, "t"))),
        Proposal(JoinGroup(1, 2, 3, 4), 0, (UserIs(1, 2),)),
        Proposal(JoinGroup(1, 2, 3, 4), 0),
        Proposal(JoinGroup(1, 2, 3, 4), 0, (IsNotRoot("bob"), MayGrant(None), MayGrant(SOME, 3))),
    ],
)
def test_a_proposal_survives_the_way_to_another_process(proposal: Proposal) -> None:
    assert decode_proposal(encode_proposal(proposal)) == proposal


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", msgspec.msgpack.encode((2, 1, b"", 0, ())), b"\x95\x01\x01"]
)
def test_bytes_that_are_no_proposal_are_refused(data: bytes) -> None:
    with pytest.raises(StateCorrupted):
        decode_proposal(data)
