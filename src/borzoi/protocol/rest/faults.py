"""What goes wrong before there is a request: the answers of HTTP itself, in plain text.

An error of the protocol is answered with a JSON body (`borzoi.protocol.rest.errors`); these are
answered with their status and one sentence, as the published servers do.
"""

from http import HTTPStatus

from borzoi.model.errors import InvalidRequest


class HttpFault(InvalidRequest):
    """A method, a path, a query or a body that no route can take."""

    def __init__(self, status: HTTPStatus, sentence: str = "", allow: tuple[str, ...] = ()) -> None:
        super().__init__(sentence)
        self.status = status
        #: The methods the path has, for a 405.
        self.allow = allow


def unknown_path() -> HttpFault:
    return HttpFault(HTTPStatus.NOT_FOUND)


def unknown_method(allow: tuple[str, ...]) -> HttpFault:
    return HttpFault(HTTPStatus.METHOD_NOT_ALLOWED, allow=allow)


def bad_path(sentence: str) -> HttpFault:
    return HttpFault(HTTPStatus.BAD_REQUEST, f"Invalid URL: {sentence}")


def bad_query(sentence: str) -> HttpFault:
    return HttpFault(HTTPStatus.BAD_REQUEST, f"Invalid query: {sentence}")


def bad_syntax(sentence: str) -> HttpFault:
    return HttpFault(HTTPStatus.BAD_REQUEST, f"The body is not JSON: {sentence}")


def bad_shape(sentence: str) -> HttpFault:
    return HttpFault(HTTPStatus.UNPROCESSABLE_ENTITY, f"The body has the wrong shape: {sentence}")


def bad_content_type() -> HttpFault:
    sentence = "The body needs `Content-Type: application/json`"
    return HttpFault(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, sentence)
