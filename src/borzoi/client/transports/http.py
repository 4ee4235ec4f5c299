"""Frames as calls of the HTTP API and back; sans-IO.

HTTP has no session: a login returns a token, which every later call carries, and consumer groups
have no members. A frame is decoded into its request, encoded as a call, and the JSON answer
becomes the payload that TCP would have delivered. Calls are pipelined; servers answer in order.
"""

from collections import deque
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

import httptools

from borzoi.client.options import Address
from borzoi.model.errors import BorzoiError, FeatureUnavailable, InvalidFormat, InvalidVersion
from borzoi.protocol.buffers import Buffer
from borzoi.protocol.catalog import decode_request
from borzoi.protocol.commands.messages import PolledMessages, PollMessages
from borzoi.protocol.commands.system import Snapshot
from borzoi.protocol.commands.users import Identity, LogoutUser
from borzoi.protocol.contract import Request, encode_payload
from borzoi.protocol.errors import code_of
from borzoi.protocol.framing import PREFIX_BYTES, REQUEST_PREFIX, ResponseFrame
from borzoi.protocol.rest.accounts import AccessIdentity
from borzoi.protocol.rest.calls import RestCall, answer_of, call_of

RECEIVED_BYTES: Final = 64 * 1024
#: The status of a batch that is too large; HTTP uses it for any body.
TOO_LARGE: Final = 4036


class HttpWire:
    """The calls of one connection; has the callbacks of the parser."""

    opening: Final = b""
    unasked: Final = False
    missing: Final = 0

    def __init__(self, address: Address) -> None:
        self._address = address
        self._token = ""
        self._buffer = memoryview(bytearray(RECEIVED_BYTES))
        self._parser: Any = httptools.HttpResponseParser(self)
        self._asked: deque[Request] = deque()
        self._body = bytearray()
        self._answers: list[ResponseFrame] = []
        #: False once the server has announced that this answer is its last.
        self.is_open = True

    def take_unasked(self) -> bytes:
        return b""

    def outgoing(self, parts: Sequence[Buffer]) -> Sequence[Buffer]:
        frame = b"".join(parts)
        _, code = REQUEST_PREFIX.unpack_from(frame)
        request = decode_request(code, memoryview(frame)[PREFIX_BYTES:])
        try:
            call = call_of(request)
        except FeatureUnavailable as fault:
            raise FeatureUnavailable(
                f"{fault}; connect by TCP, WebSocket or QUIC for that"
            ) from None
        except ValueError as fault:
            raise InvalidFormat(f"cannot say {type(request).__name__} over HTTP: {fault}") from None
        self._asked.append(request)
        return [self._head(call), call.body or b""]

    def _head(self, call: RestCall) -> bytes:
        lines = [f"{call.method} {call.target} HTTP/1.1", f"Host: {self._address}"]
        if self._token:
            lines.append(f"Authorization: Bearer {self._token}")
        if call.body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(call.body)}"]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def space(self) -> memoryview:
        return self._buffer

    def received(self, count: int) -> list[ResponseFrame]:
        try:
            self._parser.feed_data(self._buffer[:count])
        except httptools.HttpParserCallbackError as fault:
            # The parser keeps an exception raised by a callback as its context.
            raise fault.__context__ or fault from None
        except httptools.HttpParserError as fault:
            raise InvalidVersion(
                f"the peer at {self._address} does not speak HTTP: {fault}"
            ) from None
        answers, self._answers = self._answers, []
        return answers

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        self._body = bytearray()

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        self.is_open = self._parser.should_keep_alive()
        if not self._asked:
            # Such as a timeout before the server closes; no request is pending.
            return
        self._answers.append(self._answer(self._asked.popleft(), status, bytes(self._body)))

    def _answer(self, request: Request, status: int, body: bytes) -> ResponseFrame:
        if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            return ResponseFrame(TOO_LARGE, b"the server takes no body of that size over HTTP")
        try:
            found = answer_of(request, status, body)
        except InvalidFormat as fault:
            raise InvalidVersion(f"cannot read the answer of {self._address}: {fault}") from fault
        except BorzoiError as fault:
            return ResponseFrame(code_of(fault), str(fault).encode())
        return ResponseFrame(0, self._payload(request, found))

    def _payload(self, request: Request, found: Any) -> bytes:
        """The payload that TCP would have delivered."""
        match found:
            case AccessIdentity():
                self._token = found.token
                found = Identity(found.user_id)
            case bytes():
                found = Snapshot(found)
            case PolledMessages(messages_count=0):
                # An empty answer names neither the partition nor its end.
                assert isinstance(request, PollMessages)
                found = PolledMessages(request.partition_id or 0, 0, 0, b"")
            case None | str():
                if isinstance(request, LogoutUser):
                    self._token = ""
                return b""
        return encode_payload(found, all_compressions=True)
