"""The bytes of users, permissions and logins."""

import pytest
from tests.support.wire_client import request_in

from borzoi.model.errors import InvalidCommand, InvalidFormat
from borzoi.model.users import ALL_PERMISSIONS, UserStatus
from borzoi.protocol.buffers import Reader
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.users import (
    ChangePassword,
    CreateUser,
    Identity,
    LoginUser,
    UpdatePermissions,
    UpdateUser,
    UserDetails,
    UserInfo,
    Users,
)
from borzoi.protocol.contract import encode_payload

ALL_WIRE = bytes.fromhex("01 0b000000 01010101010101010101 00")


@pytest.mark.parametrize(
    ("code", "wire", "request_value"),
    [
        (
            Code.LOGIN_USER,
            "0469676779 0469676779 06000000302e31302e30 00000000",
            LoginUser("iggy", "iggy", "0.10.0", ""),
        ),
        (
            Code.CREATE_USER,
            "03626f62 06736563726574 02 00",
            CreateUser("bob", "secret", UserStatus.INACTIVE),
        ),
        (
            Code.CREATE_USER,
            "03626f62 06736563726574 01" + ALL_WIRE.hex(),
            CreateUser("bob", "secret", permissions=ALL_PERMISSIONS),
        ),
        (
            Code.UPDATE_USER,
            "0203626f62 01 0462696c6c 01 02",
            UpdateUser("bob", "bill", UserStatus.INACTIVE),
        ),
        (Code.UPDATE_USER, "010407000000 00 00", UpdateUser(7)),
        (Code.UPDATE_PERMISSIONS, "0203626f62 00", UpdatePermissions("bob")),
        (
            Code.UPDATE_PERMISSIONS,
            "0203626f62" + ALL_WIRE.hex(),
            UpdatePermissions("bob", ALL_PERMISSIONS),
        ),
        (Code.CHANGE_PASSWORD, "0203626f62 036f6c64 036e6577", ChangePassword("bob", "old", "new")),
    ],
)
def test_requests_have_the_published_bytes(code, wire, request_value):
    assert encode_payload(request_value).hex() == wire.replace(" ", "")
    assert request_in(code, bytes.fromhex(wire)) == request_value


def test_a_login_may_end_after_the_password():
    login = request_in(Code.LOGIN_USER, bytes.fromhex("0469676779 0469676779"))
    assert login == LoginUser("iggy", "iggy", version="", context="")


@pytest.mark.parametrize(
    "wire",
    [
        "",
        "04",
        "046967",
        "0469676779",
        "0469676779 046967",
        "0469676779 0469676779 06000000",
        "0469676779 0469676779 06000000302e31302e30",
        "0469676779 0469676779 ffffffff00000000",
        "03fffefd 0469676779 00000000 00000000",
    ],
)
def test_a_login_that_is_cut_off_elsewhere_is_malformed(wire):
    with pytest.raises(InvalidCommand):
        request_in(Code.LOGIN_USER, bytes.fromhex(wire))


def test_an_empty_user_name_is_a_fault_of_format_and_an_empty_password_is_not():
    with pytest.raises(InvalidFormat):
        request_in(Code.LOGIN_USER, bytes.fromhex("00 0469676779 00000000 00000000"))
    assert request_in(Code.LOGIN_USER, bytes.fromhex("0469676779 00")).password == ""


def test_a_flag_other_than_one_means_unchanged():
    assert request_in(Code.UPDATE_USER, bytes.fromhex("0203626f62 02 02")) == UpdateUser("bob")


def test_filler_after_no_permissions_is_ignored():
    created = request_in(
        Code.CREATE_USER, bytes.fromhex("03626f62 06736563726574 01 00 01000000 00")
    )
    assert created.permissions is None


def test_an_unknown_status_is_malformed():
    with pytest.raises(InvalidCommand):
        request_in(Code.CREATE_USER, bytes.fromhex("03626f62 06736563726574 03 00"))


INFO_WIRE = bytes.fromhex("01000000 0200000000000000 01 03626f62")


def test_a_user_without_permissions_ends_in_four_zero_bytes():
    details = UserDetails(1, 2, UserStatus.ACTIVE, "bob", None)
    assert encode_payload(details) == INFO_WIRE + bytes(4)
    assert UserDetails.decode(Reader(INFO_WIRE + bytes(4))) == details
    assert UserDetails.decode(Reader(INFO_WIRE + bytes(1))) == details


def test_a_user_with_permissions_ends_in_them():
    details = UserDetails(1, 2, UserStatus.ACTIVE, "bob", ALL_PERMISSIONS)
    assert encode_payload(details) == INFO_WIRE + ALL_WIRE
    assert UserDetails.decode(Reader(INFO_WIRE + ALL_WIRE)) == details


def test_users_follow_each_other_without_a_count():
    info = UserInfo(1, 2, UserStatus.ACTIVE, "bob")
    assert encode_payload(info) == INFO_WIRE
    assert encode_payload(Users((info, info))) == INFO_WIRE * 2
    assert Users.decode(Reader(INFO_WIRE * 2)) == Users((info, info))
    with pytest.raises(InvalidCommand):
        Users.decode(Reader(INFO_WIRE + INFO_WIRE[:-1]))


def test_a_login_answers_with_the_id_of_the_user():
    assert encode_payload(Identity(13)) == b"\x0d\x00\x00\x00"
    assert Identity.decode(Reader(b"\x0d\x00\x00\x00")).user_id == 13


def test_secrets_do_not_show_in_representations():
    for request in (
        LoginUser("iggy", "hunter2"),
        CreateUser("iggy", "hunter2"),
        ChangePassword(1, "hunter2", "hunter2"),
    ):
        assert "hunter2" not in repr(request)
