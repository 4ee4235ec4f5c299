import pytest

from borzoi.metadata.sealed import (
    SealedChangePassword,
    SealedCreatePersonalAccessToken,
    SealedCreateUser,
)


@pytest.mark.parametrize(
    "command",
    [
        SealedCreateUser("bob", "s3cret"),
        SealedChangePassword("bob", "s3cret"),
        SealedCreatePersonalAccessToken("token", "s3cret"),
    ],
)
def test_no_hash_reaches_a_representation(command):
    assert "s3cret" not in repr(command)
