"""Tokens: what is accepted, and everything that is not."""

import base64
import json
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.model.errors import InvalidAccessToken, InvalidConfiguration
from borzoi.security.jwt import (
    TOKEN_CHARACTERS_MAX,
    Claims,
    HmacKey,
    Policy,
    checked,
    hmac_key,
    issue,
    secret_bytes,
    taken_apart,
    time_ordered_id,
)

NOW = 1_800_000_000.0
KEY = HmacKey("HS256", b"a secret", b"a secret")
POLICY = Policy(("us",), ("them",), 5)
CLAIMS = Claims("us", "them", "7", NOW + 60, jti="one", iat=NOW, nbf=NOW)


def verdict(token: str, *, key: HmacKey = KEY, policy: Policy = POLICY, now: float = NOW) -> Claims:
    return checked(taken_apart(token), key, policy, now=now)


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_a_token_says_what_was_issued(algorithm: str) -> None:
    key = HmacKey(algorithm, b"a secret", b"a secret")
    token = issue(key, CLAIMS)
    assert verdict(token, key=key) == CLAIMS
    header = json.loads(base64.urlsafe_b64decode(token.split(".")[0] + "=="))
    assert header == {"typ": "JWT", "alg": algorithm}


def test_a_recorded_token_of_a_published_server_is_read() -> None:
    recorded = (
        "eyJ0eXAiOiJKV1QiLCJhbGciOiJIUzI1NiJ9.eyJqdGkiOiIwMWExZTExYy1iOTA0LTc5MzMtYmUwOC1jNTBi"
        "YjM2MWIzNjUiLCJpc3MiOiJpZ2d5LmFwYWNoZS5vcmciLCJhdWQiOiJpZ2d5LmFwYWNoZS5vcmciLCJzdWIiOi"
        "IwIiwiaWF0IjoxNzk0Nzc4MTE4LCJleHAiOjE3OTQ3ODE3MTgsIm5iZiI6MTc5NDc3ODExOH0.AAAA"
    )
    claims = taken_apart(recorded).claims
    assert (claims.sub, claims.iss, claims.exp - claims.iat) == ("0", "iggy.apache.org", 3600)
    assert claims.jti == "01a1e11c-b904-7933-be08-c50bb361b365"


def test_a_published_algorithm_example_is_signed_alike() -> None:
    """The example of RFC 7515, appendix A.1."""
    secret = secret_bytes(
        "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"
    )
    signed = (
        b"eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9."
        b"eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
    )
    signature = HmacKey("HS256", secret, secret).sign(signed)
    assert base64.urlsafe_b64encode(signature).rstrip(b"=") == (
        b"dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    )


def test_expiry_and_start_have_the_leeway_and_no_more() -> None:
    token = issue(KEY, CLAIMS)
    assert verdict(token, now=NOW + 64.9)
    assert verdict(token, now=NOW - 5)
    for now in (NOW + 65, NOW + 1000, NOW - 5.1):
        with pytest.raises(InvalidAccessToken):
            verdict(token, now=now)


def test_issued_in_the_future_is_refused_without_a_start() -> None:
    token = issue(KEY, msgspec.structs.replace(CLAIMS, nbf=0, iat=NOW + 6))
    with pytest.raises(InvalidAccessToken, match="not valid yet"):
        verdict(token)


@pytest.mark.parametrize("audience", [["others", "them"], "them"])
def test_one_of_the_audiences_is_enough(audience: str | list[str]) -> None:
    assert verdict(issue(KEY, msgspec.structs.replace(CLAIMS, aud=audience)))


@pytest.mark.parametrize(
    "changes", [{"iss": "others"}, {"aud": "others"}, {"aud": []}, {"aud": ["x", "y"]}]
)
def test_other_issuers_and_audiences_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(InvalidAccessToken):
        verdict(issue(KEY, msgspec.structs.replace(CLAIMS, **changes)))


@pytest.mark.parametrize("algorithm", ["none", "None", "", "HS384", "RS256", "HS256 "])
def test_the_token_does_not_choose_its_algorithm(algorithm: str) -> None:
    claims = issue(KEY, CLAIMS).split(".")[1]
    header = part({"typ": "JWT", "alg": algorithm})
    signature = base64.urlsafe_b64encode(KEY.sign(f"{header}.{claims}".encode())).rstrip(b"=")
    for ending in ("", signature.decode()):
        with pytest.raises(InvalidAccessToken):
            verdict(f"{header}.{claims}.{ending}")


def test_a_secret_of_another_server_opens_nothing() -> None:
    token = issue(HmacKey("HS256", b"another", b"another"), CLAIMS)
    with pytest.raises(InvalidAccessToken, match="signature"):
        verdict(token)


def test_any_changed_character_is_noticed() -> None:
    token = issue(KEY, CLAIMS)
    for position, character in enumerate(token):
        for other in ("A", "B", "_"):
            if other != character:
                with pytest.raises(InvalidAccessToken):
                    verdict(token[:position] + other + token[position + 1 :])
    for longer in (token + "x", token + "=", token + ".", " " + token, token + "\n"):
        with pytest.raises(InvalidAccessToken):
            verdict(longer)


@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda data: data.decode("latin-1")))
def test_garbage_is_refused_and_nothing_else_happens(text: str) -> None:
    with pytest.raises(InvalidAccessToken):
        verdict(text)


@pytest.mark.parametrize(
    "token",
    [
        "",
        "junk",
        "a.b.c",
        "..",
        f"{part([])}.{part({})}.AAAA",
        f"{part({'alg': 'HS256'})}.{part({'iss': 1})}.AAAA",
        "é.é.é",
        "A" * (TOKEN_CHARACTERS_MAX + 1),
    ],
)
def test_what_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(InvalidAccessToken):
        taken_apart(token)


def test_the_secret_is_not_shown() -> None:
    assert "secret" not in repr(KEY)


def test_one_secret_does_for_both_and_none_is_a_random_one() -> None:
    assert hmac_key("HS256", "one", "", base64=False) == HmacKey("HS256", b"one", b"one")
    assert hmac_key("HS256", "", "two", base64=False) == HmacKey("HS256", b"two", b"two")
    assert hmac_key("HS256", "a", "b", base64=False) == HmacKey("HS256", b"a", b"b")
    random, other = (hmac_key("HS256", "", "", base64=True) for _ in range(2))
    assert random != other
    assert len(random.secret) >= 32


def test_secrets_may_be_base64_of_either_alphabet() -> None:
    assert secret_bytes("_-8=") == secret_bytes("/+8") == b"\xff\xef"
    assert hmac_key("HS256", "c2VjcmV0", "", base64=True).secret == b"secret"
    for wrong in ("a", "ä", "a b="):
        with pytest.raises(InvalidConfiguration):
            secret_bytes(wrong)


def test_ids_are_version_7_and_in_the_order_of_time() -> None:
    ids = [time_ordered_id(milliseconds) for milliseconds in (0, 1, 1_800_000_000_000)]
    assert [UUID(text).version for text in ids] == [7, 7, 7]
    assert ids == sorted(ids)
    assert time_ordered_id(5) != time_ordered_id(5)
