"""One request, one answer: the base of the client's command methods."""

from collections.abc import Sequence
from typing import TypeVar

from borzoi.client._async.session import AsyncSession
from borzoi.client.options import Options
from borzoi.client.reconnection import is_repeatable
from borzoi.model.errors import InvalidRequest, InvalidVersion
from borzoi.protocol.buffers import Buffer
from borzoi.protocol.catalog import decode_response
from borzoi.protocol.contract import Request, Response
from borzoi.protocol.framing import encode_request

Answer = TypeVar("Answer", bound=Response)


class AsyncAsking:
    """Sends requests and reads their answers."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._session = AsyncSession(options)

    async def call(self, request: Request, *, timeout: float | None = None) -> Response | None:
        """Send any request of `borzoi.protocol.commands` and return its answer; None when the
        command has no answer or the server found nothing.

        Every command has its own method; this is for programs that build requests as values.
        """
        return await self._call(request, timeout)

    async def _call(
        self, request: Request, timeout: float | None, *, generation: int | None = None
    ) -> Response | None:
        payload = await self._exchange(
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

    async def _exchange(
        self,
        parts: Sequence[Buffer],
        timeout: float | None,
        *,
        request: str,
        repeatable: bool,
        generation: int | None = None,
    ) -> bytes | memoryview:
        return await self._session.exchange(
            parts,
            self._options.timeout if timeout is None else timeout,
            request=request,
            repeatable=repeatable,
            generation=generation,
        )

    async def _do(
        self, request: Request, timeout: float | None, *, generation: int | None = None
    ) -> None:
        """For requests whose answer is empty; some are only valid on one connection."""
        await self._call(request, timeout, generation=generation)

    async def _look_up(
        self, request: Request, answer: type[Answer], timeout: float | None
    ) -> Answer | None:
        """For requests that may find nothing."""
        response = await self.call(request, timeout=timeout)
        assert response is None or isinstance(response, answer)
        return response

    async def _ask(self, request: Request, answer: type[Answer], timeout: float | None) -> Answer:
        """For requests that always have an answer."""
        response = await self._look_up(request, answer, timeout)
        if response is None:
            raise InvalidVersion(
                f"the answer to {type(request).__name__} is empty; the server may be of another"
                " version"
            )
        return response
