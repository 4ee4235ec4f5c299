import pytest

from borzoi.model.errors import InvalidConfiguration
from borzoi.server.root_user import root_credentials


def test_the_environment_comes_first() -> None:
    environment = {"IGGY_ROOT_USERNAME": "admin", "BORZOI_ROOT_PASSWORD": "secret"}
    found = root_credentials(environment, default_credentials=True)
    assert (found.username, found.password, found.show) == ("admin", "secret", False)
    assert "secret" not in repr(found)


def test_the_flag_gives_the_credentials_everyone_knows() -> None:
    found = root_credentials({}, default_credentials=True)
    assert (found.username, found.password) == ("iggy", "iggy")


def test_otherwise_the_password_is_random_and_shown_once() -> None:
    drawn = {root_credentials({}, default_credentials=False).password for _ in range(20)}
    assert len(drawn) == 20
    assert all(20 <= len(password) <= 39 and password.isalnum() for password in drawn)
    assert root_credentials({}, default_credentials=False).show


@pytest.mark.parametrize(
    "environment",
    [
        {"BORZOI_ROOT_USERNAME": "admin"},
        {"BORZOI_ROOT_PASSWORD": "secret"},
        {"BORZOI_ROOT_USERNAME": "ad", "BORZOI_ROOT_PASSWORD": "secret"},
        {"BORZOI_ROOT_USERNAME": "admin", "BORZOI_ROOT_PASSWORD": "no"},
    ],
)
def test_half_credentials_and_wrong_ones_are_refused(environment: dict[str, str]) -> None:
    with pytest.raises(InvalidConfiguration) as refused:
        root_credentials(environment, default_credentials=False)
    assert "secret" not in str(refused.value)
