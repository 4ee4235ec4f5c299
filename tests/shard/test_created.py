"""What a creation answers, as bytes."""

import pytest

from borzoi.model.errors import StateCorrupted
from borzoi.model.users import ALL_PERMISSIONS, UserStatus
from borzoi.protocol.commands.groups import GroupInfo, GroupMember
from borzoi.protocol.commands.streams import StreamInfo
from borzoi.protocol.commands.users import UserDetails
from borzoi.shard.created import KINDS, decode_created, encode_created


@pytest.mark.parametrize(
    "created",
    [
        None,
        GroupInfo(1, 2, 3, "g"),
        GroupMember(4, (0, 1, 2)),
        UserDetails(7, 1, UserStatus.ACTIVE, "anna", ALL_PERMISSIONS),
        UserDetails(7, 1, UserStatus.INACTIVE, "otto", None),
    ],
)
def test_what_was_created_is_the_same_on_the_other_side(created):
    assert decode_created(encode_created(created)) == created


def test_every_kind_of_creation_can_cross():
    assert StreamInfo in KINDS
    assert len(KINDS) == 5


def test_what_cannot_be_read_is_refused():
    for body in (b"\xc1", b"\x92\x09\xc0", b"\x92\x00\xa1x"):
        with pytest.raises(StateCorrupted):
            decode_created(body)
