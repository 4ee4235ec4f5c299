"""What the sections of the listeners may not say together, each as one sentence."""

import ipaddress
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from borzoi.model.limits import BATCH_BYTES_MAX, SERVER_DEFAULT
from borzoi.server.settings import Settings
from borzoi.server.transport_settings import CorsSection, HttpSection, JwtSection, TlsSection

METHODS: Final = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "CONNECT", "TRACE")
SECOND_US: Final = 1_000_000


def transport_faults(settings: Settings) -> Iterator[str]:
    """Every rule that a listener which is enabled breaks."""
    yield from _addresses(settings)
    if settings.tcp.enabled:
        yield from _certificates("tcp.tls", settings.tcp.tls)
    if settings.websocket.enabled:
        yield from _certificates("websocket.tls", settings.websocket.tls)
    if settings.http.enabled:
        yield from _http(settings.http)
        yield from _jwt(settings.http.jwt)
        yield from _cors(settings.http.cors)


def _addresses(settings: Settings) -> Iterator[str]:
    for name in ("tcp", "http", "websocket", "quic"):
        section = getattr(settings, name)
        if not section.enabled and name != "tcp":
            continue
        host, _ = section.address
        try:
            version = ipaddress.ip_address(host).version
        except ValueError:
            yield f"{name}.address: {host!r} is not an address; it takes a literal IP, not a name"
            continue
        if name == "tcp" and section.ipv6 and version != 6:
            yield f"tcp.ipv6 is true and tcp.address is {host!r}; it takes an IPv6 address then"


def _certificates(path: str, tls: TlsSection) -> Iterator[str]:
    if not tls.enabled or tls.self_signed:
        return
    for name in ("cert_file", "key_file"):
        file = getattr(tls, name)
        if not is_file(file):
            yield (
                f"{path}.{name}: {file!r} is not there, and {path}.self_signed is false;"
                " it takes the path of a PEM file then"
            )


def _http(http: HttpSection) -> Iterator[str]:
    if http.tls.enabled:
        for name in ("cert_file", "key_file"):
            file = getattr(http.tls, name)
            if not is_file(file):
                yield f"http.tls.{name}: {file!r} is not there; it takes the path of a PEM file"
    if not 0 < http.max_request_size <= BATCH_BYTES_MAX:
        yield (
            f"http.max_request_size: {http.max_request_size} B is not allowed;"
            f" it takes 1 B to {BATCH_BYTES_MAX >> 20} MiB"
        )
    endpoint = http.metrics.endpoint
    if http.metrics.enabled and not endpoint.startswith("/"):
        yield f"http.metrics.endpoint: {endpoint!r} is not allowed; it takes a path like '/metrics'"


def _jwt(jwt: JwtSection) -> Iterator[str]:
    if jwt.access_token_expiry == SERVER_DEFAULT:
        yield "http.jwt.access_token_expiry: 0 is not allowed; it takes a duration or none"
    elif jwt.access_token_expiry < SECOND_US:
        yield "http.jwt.access_token_expiry: is below 1 s; tokens count whole seconds"
    names = [one.issuer for one in jwt.trusted_issuers]
    for one in jwt.trusted_issuers:
        where = f"http.jwt.trusted_issuers ({one.issuer!r})"
        if not one.issuer or not one.audience or names.count(one.issuer) > 1:
            yield f"{where}: each needs an audience and a name that no other has"
        if one.issuer in jwt.valid_issuers:
            yield f"{where}: is one of http.jwt.valid_issuers, whose tokens are signed with our key"
        if urlsplit(one.jwks_url).scheme not in ("file", "http", "https"):
            yield f"{where}: jwks_url is {one.jwks_url!r}; it takes a file, http or https address"


def _cors(cors: CorsSection) -> Iterator[str]:
    if not cors.enabled:
        return
    for method in cors.allowed_methods:
        if method not in METHODS:
            yield f"http.cors.allowed_methods: {method!r} is none of {', '.join(METHODS)}"
    for name in ("allowed_origins", "allowed_headers", "exposed_headers"):
        for text in getattr(cors, name):
            if not (text.isascii() and text.isprintable()):
                yield f"http.cors.{name}: {text!r} cannot stand in a header"
    if cors.allow_credentials and "*" in (*cors.allowed_origins, *cors.allowed_headers):
        yield (
            "http.cors.allow_credentials is true, so that browsers refuse '*';"
            " allowed_origins and allowed_headers take names then"
        )


def is_file(path: str) -> bool:
    try:
        return Path(path).is_file()
    except OSError:
        return False
