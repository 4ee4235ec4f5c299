import msgspec

from borzoi.model.system import TransportKind
from borzoi.model.users import UserStatus
from borzoi.protocol.commands.system import ClientDetails, ClientGroup
from borzoi.protocol.commands.tokens import TokenInfo
from borzoi.protocol.commands.users import UserDetails
from borzoi.protocol.rest.accounts import (
    AccessIdentity,
    ClientDetailsDocument,
    IdentityDocument,
    TokenDocument,
    UserDetailsDocument,
)


def test_a_login_answers_with_a_token_that_no_log_shows() -> None:
    identity = AccessIdentity(7, "secret", 1_700_000_000)
    document = IdentityDocument.of(identity)
    assert msgspec.json.encode(document) == (
        b'{"user_id":7,"access_token":{"token":"secret","expiry":1700000000}}'
    )
    assert document.response() == identity
    assert "secret" not in repr(identity)


def test_a_user_without_permissions_has_null() -> None:
    user = UserDetails(1, 2, UserStatus.INACTIVE, "bob", None)
    document = UserDetailsDocument.of(user)
    assert msgspec.json.encode(document) == (
        b'{"id":1,"created_at":2,"status":"inactive","username":"bob","permissions":null}'
    )
    assert document.response() == user


def test_a_token_that_never_expires_says_null_where_the_wire_says_0() -> None:
    assert TokenDocument.of(TokenInfo("t", 0)).expiry_at is None
    assert TokenDocument("t", None).response() == TokenInfo("t", 0)
    assert TokenDocument.of(TokenInfo("t", 5)).response() == TokenInfo("t", 5)


def test_a_client_says_who_it_is_and_which_groups_it_joined() -> None:
    client = ClientDetails(9, None, TransportKind.WEBSOCKET, "[::1]:5", (ClientGroup(1, 2, 3),))
    document = ClientDetailsDocument.of(client)
    assert msgspec.json.encode(document) == (
        b'{"client_id":9,"user_id":null,"address":"[::1]:5","transport":"ws",'
        b'"consumer_groups_count":1,'
        b'"consumer_groups":[{"stream_id":1,"topic_id":2,"group_id":3}]}'
    )
    assert document.response() == client
