"""A status becomes an exception that says which request it was about."""

from borzoi.client.advice import error_answered
from borzoi.model.errors import ServerError, StreamNotFound


def test_a_known_status_is_its_class() -> None:
    error = error_answered(1009, "GetTopics")
    assert isinstance(error, StreamNotFound)
    assert (error.code, error.name) == (1009, "stream_id_not_found")
    assert error.message.startswith("GetTopics: ")


def test_an_unknown_status_keeps_its_number() -> None:
    error = error_answered(77_777, "Ping")
    assert isinstance(error, ServerError)
    assert (error.code, error.name) == (77_777, "error")
