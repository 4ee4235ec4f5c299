# Made by tools/unasync.py from src/borzoi/client/_async/asking.py: edit that one.
"""One request, one answer: the base of the client's command methods."""

from collections.abc import Sequence
from typing import TypeVar

from borzoi.client._sync.session import Session
from borzoi.client.options import Options
from borzoi.client.reconnection import is_repeatable
from borzoi.model.errors import InvalidRequest, InvalidVersion
from borzoi.protocol.buffers import Buffer
from borzoi.protocol.catalog import decode_response
from borzoi.protocol.contract import Request, Response
from borzoi.protocol.framing import encode_request

Answer = TypeVar("Answer", bound=Response)


class Asking:
    """Sends requests and reads their answers."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._session = Session(options)

    def call(self, request: Request, *, timeout: float | None = None) -> Response | None:
        """Send any request of `borzoi.protocol.commands` and return its answer; None when the
        command has no answer or the server found nothing.

        Every command has its own method; this is for programs that build requests as values.
        """
        return self._call(request, timeout)

    def _call(
        self, request: Request, timeout: float | None, *, generation: int | None = None
    ) -> Response | None:
        payload = self._exchange(
            [encode_request(request)],
            timeout,
            request=type(request).__name__,
            repeatable=is_repeatable(request),
            generation=generation,
        )
        try:
            return decode_response(type(request), payload)
        except InvalidRequest as fault:
            raise InvalidVersion(
                f"cannot read the answer to {type(request).__name__}: {fault}; the server may be"
                " of another version"
            ) from fault

    def _exchange(
        self,
        parts: Sequence[Buffer],
        timeout: float | None,
        *,
        request: str,
        repeatable: bool,
        generation: int | None = None,
    ) -> bytes | memoryview:
        return self._session.exchange(
            parts,
            self._options.timeout if timeout is None else timeout,
            request=request,
            repeatable=repeatable,
            generation=generation,
        )

    def _do(
        self, request: Request, timeout: float | None, *, generation: int | None = None
    ) -> None:
        """For requests whose answer is empty; some are only valid on one connection."""
        self._call(request, timeout, generation=generation)

    def _look_up(
        self, request: Request, answer: type[Answer], timeout: float | None
    ) -> Answer | None:
        """For requests that may find nothing."""
        response = self.call(request, timeout=timeout)
        assert response is None or isinstance(response, answer)
        return response

    def _ask(self, request: Request, answer: type[Answer], timeout: float | None) -> Answer:
        """For requests that always have an answer."""
        response = self._look_up(request, answer, timeout)
        if response is None:
            raise InvalidVersion(
                f"the answer to {type(request).__name__} is empty; the server may be of another"
                " version"
            )
        return response
