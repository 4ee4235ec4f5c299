"""Resets a server after a test: empty, running, and with no user but root."""

from typing import Final

from borzoi.client import Client
from borzoi.model.identifiers import ROOT_USER_ID

#: The token with which the fixtures log in: checking a password is slow.
TOKEN_NAME: Final = "borzoi-testing"  # noqa: S105 - its name, not the token


def make_token(url: str) -> str:
    """Return this connection string with a new token in place of the password."""
    with Client(url) as client:
        token = client.create_personal_access_token(TOKEN_NAME)
    scheme, _, rest = url.partition("://")
    _, _, address = rest.rpartition("@")
    return f"{scheme}://{token}@{address}"


def clean(client: Client) -> None:
    """Remove every stream, every user but root and every token but that of the fixtures."""
    for stream in client.get_streams():
        client.delete_stream(stream.id)
    for user in client.get_users():
        if user.id != ROOT_USER_ID:
            client.delete_user(user.id)
    for token in client.get_personal_access_tokens():
        if token.name != TOKEN_NAME:
            client.delete_personal_access_token(token.name)
