"""The root user: where its name and password come from."""

import secrets
import string
from collections.abc import Mapping

from borzoi.metadata.users import check_username
from borzoi.model.errors import InvalidConfiguration, InvalidRequest
from borzoi.model.value import Value
from borzoi.protocol.hiding import hiding
from borzoi.security.passwords import check_password
from borzoi.server.overrides import variable

DEFAULT_NAME = "iggy"
DEFAULT_PASSWORD = "iggy"  # noqa: S105
ALPHABET = string.ascii_letters + string.digits
LENGTH_MIN = 20
LENGTH_MAX = 39


class RootCredentials(Value):
    """Name and password of a root user to create, and a description of their source."""

    username: str
    password: str
    source: str
    #: A random password is shown once, because it is stored only as a hash.
    show: bool = False
    __repr__ = hiding("password")


def root_credentials(
    environment: Mapping[str, str], *, default_credentials: bool
) -> RootCredentials:
    """The environment, else the flag, else a random password."""
    username = variable(environment, "ROOT_USERNAME")
    password = variable(environment, "ROOT_PASSWORD")
    if (username is None) != (password is None):
        raise InvalidConfiguration(
            "BORZOI_ROOT_USERNAME and BORZOI_ROOT_PASSWORD belong together: set both or neither"
        )
    if username is not None and password is not None:
        try:
            check_username(username)
            check_password(password)
        except InvalidRequest as fault:
            raise InvalidConfiguration(f"BORZOI_ROOT_USERNAME/PASSWORD: {fault}") from fault
        return RootCredentials(username, password, "from the environment")
    if default_credentials:
        return RootCredentials(
            DEFAULT_NAME, DEFAULT_PASSWORD, "the default (--with-default-root-credentials)"
        )
    return RootCredentials(DEFAULT_NAME, random_password(), "random, shown this once", show=True)


def random_password() -> str:
    length = LENGTH_MIN + secrets.randbelow(LENGTH_MAX - LENGTH_MIN + 1)
    return "".join(secrets.choice(ALPHABET) for _ in range(length))
