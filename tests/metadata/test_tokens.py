import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.metadata.effects import ApplyResult, DroppedToken
from borzoi.metadata.sealed import SealedCreatePersonalAccessToken as CreateToken
from borzoi.metadata.sealed import SealedCreateUser
from borzoi.metadata.state import Token
from borzoi.metadata.tokens import ExpireTokens, check_token_name, expiry_at
from borzoi.model.errors import (
    InvalidTokenName,
    ResourceNotFound,
    TokenNameTaken,
    TokensLimitReached,
)
from borzoi.model.limits import U64_MAX
from borzoi.protocol.commands.tokens import DeletePersonalAccessToken

NOW = 1_700_000_000_000_000


@pytest.mark.parametrize("expiry", [0, U64_MAX, U64_MAX - 1, U64_MAX - NOW + 1])
def test_nothing_forever_and_beyond_time_all_mean_never(expiry):
    assert expiry_at(NOW, expiry) == 0


@given(st.integers(1, U64_MAX - NOW))
def test_any_other_expiry_lies_in_the_future_and_fits_the_wire(expiry):
    assert NOW < expiry_at(NOW, expiry) <= U64_MAX


def test_a_token_belongs_to_the_user_who_acts(control):
    control.do(SealedCreateUser("bob", "h"))
    assert control.do(CreateToken("token", "abc", 99), user_id=1) == ApplyResult()
    assert control.state.users[1].tokens == {"token": Token("token", "abc", 99)}
    assert control.state.token_owners == {"abc": 1}


@pytest.mark.parametrize("name", ["ab", "n" * 31, "é" * 16])
def test_a_name_too_short_or_too_long_is_refused(control, name):
    with pytest.raises(InvalidTokenName):
        check_token_name(name)
    control.refuse(InvalidTokenName, CreateToken(name, "abc", tokens_max=0))


def test_names_are_unique_per_user_and_case_by_case(control):
    control.do(SealedCreateUser("bob", "h"))
    control.do(CreateToken("token", "a"))
    control.refuse(TokenNameTaken, CreateToken("token", "b"))
    control.do(CreateToken("TOKEN", "b"))
    control.do(CreateToken("token", "c"), user_id=1)


def test_the_same_token_cannot_be_had_twice(control):
    control.do(CreateToken("token", "a"))
    control.refuse(TokenNameTaken, CreateToken("other", "a"))


def test_the_limit_is_told_before_the_name(control):
    for number in range(3):
        control.do(CreateToken(f"tok{number}", str(number), tokens_max=3))
    control.refuse(TokensLimitReached, CreateToken("tok3", "x", tokens_max=3))
    control.refuse(TokensLimitReached, CreateToken("tok0", "x", tokens_max=3))
    control.do(DeletePersonalAccessToken("tok1"))
    control.do(CreateToken("tok3", "x", tokens_max=3))


def test_without_configuration_a_user_has_a_hundred(control):
    for number in range(100):
        control.do(CreateToken(f"tok{number}", str(number)))
    control.refuse(TokensLimitReached, CreateToken("one more", "x"))


def test_a_deleted_token_names_the_sessions_to_end(control):
    control.do(CreateToken("token", "a"))
    outcome = control.do(DeletePersonalAccessToken("token"))
    assert outcome.effects == (DroppedToken(0, "token", "a"),)
    assert control.state.token_owners == {}


def test_a_user_cannot_delete_the_token_of_another_user(control):
    control.do(SealedCreateUser("bob", "h"))
    control.do(CreateToken("token", "a"))
    control.refuse(ResourceNotFound, DeletePersonalAccessToken("token"), user_id=1)
    control.refuse(ResourceNotFound, DeletePersonalAccessToken("ab"))


def test_a_deleted_user_has_no_tokens_to_create_or_delete(control):
    control.refuse(ResourceNotFound, CreateToken("token", "a"), user_id=9)
    control.refuse(ResourceNotFound, DeletePersonalAccessToken("token"), user_id=9)


def test_expired_tokens_are_cleared_away_and_end_no_session(control):
    control.do(SealedCreateUser("bob", "h"))
    control.do(CreateToken("never", "a"))
    control.do(CreateToken("early", "b", 50))
    control.do(CreateToken("later", "c", 51))
    control.do(CreateToken("early", "d", 49), user_id=1)
    assert control.do(ExpireTokens(50)) == ApplyResult()
    assert sorted(control.state.users[0].tokens) == ["later", "never"]
    assert control.state.users[1].tokens == {}
    assert control.state.token_owners == {"a": 0, "c": 0}
