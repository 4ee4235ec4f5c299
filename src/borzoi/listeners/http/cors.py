"""Which pages of other origins may call, as headers. Pure.

The published servers add the same headers to every answer, whether or not it has an origin, and
treat every `OPTIONS` as a preflight.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from borzoi.listeners.http.responses import Headers, HttpResponse
from borzoi.model.value import Value
from borzoi.protocol.rest.calls import allowed_methods
from borzoi.protocol.rest.faults import HttpFault

VARY: Final = b"origin, access-control-request-method, access-control-request-headers"
ANY: Final = "*"


class Cors(Value):
    """What other origins may do; `*` as the first origin means all."""

    methods: Sequence[str] = ("GET", "POST", "PUT", "DELETE")
    origins: Sequence[str] = (ANY,)
    headers: Sequence[str] = ("content-type", "authorization")
    exposed: Sequence[str] = ()
    credentials: bool = False
    private_network: bool = False

    @property
    def is_same_for_all(self) -> bool:
        """Whether `on_every_answer` does not depend on the origin."""
        return self._origin(None) == ANY

    def on_every_answer(self, origin: str | None) -> Headers:
        found: Headers = [(b"vary", VARY)]
        allowed = self._origin(origin)
        if allowed:
            found.append((b"access-control-allow-origin", allowed.encode("latin-1")))
        if self.credentials:
            found.append((b"access-control-allow-credentials", b"true"))
        exposed = ",".join(name for name in self.exposed if name.strip())
        if exposed:
            found.append((b"access-control-expose-headers", exposed.encode("latin-1")))
        return found

    def on_preflight(self, asked: Mapping[str, str]) -> Headers:
        """Further headers of the answer to a preflight request."""
        found = [
            (b"access-control-allow-methods", ",".join(self.methods).encode("latin-1")),
            (b"access-control-allow-headers", ",".join(self.headers).encode("latin-1")),
        ]
        if self.private_network and asked.get("access-control-request-private-network") == "true":
            found.append((b"access-control-allow-private-network", b"true"))
        return found

    def _origin(self, origin: str | None) -> str | None:
        if self.origins and self.origins[0] == ANY:
            return ANY
        return origin if origin in self.origins else None


def preflight(path: str, headers: Mapping[str, str], cors: Cors) -> HttpResponse:
    found = cors.on_preflight(headers)
    try:
        found.append((b"allow", ",".join(allowed_methods(path)).encode()))
    except HttpFault:
        pass  # an unknown path has no methods either
    return HttpResponse(headers=found)
