"""HTTP from its settings, loaded with the first connection."""

import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from borzoi.handlers.dispatch import Dispatcher
from borzoi.listeners.binary import BinaryProtocol
from borzoi.listeners.http.app import HttpApp, HttpOptions
from borzoi.listeners.http.authentication import Authenticator, Revocations
from borzoi.listeners.http.cors import Cors
from borzoi.listeners.http.listener import HttpListener
from borzoi.listeners.http.metrics import Metrics, Sources
from borzoi.listeners.process_metrics import ProcessSources
from borzoi.listeners.unfinished import Unfinished
from borzoi.server.token_rules import TokenRules
from borzoi.server.transport_settings import CorsSection, HttpSection
from borzoi.telemetry.exposition import Family


def http_listener(
    sock: socket.socket,
    section: HttpSection,
    binary: BinaryProtocol,
    rules: TokenRules,
    revocations: Revocations,
    process: ProcessSources,
    *,
    others: Callable[[], Awaitable[Sequence[Sequence[Family]]]] | None,
    context: ssl.SSLContext | None,
) -> HttpListener:
    """The listener of a bound socket, with TLS if there is a context."""
    sources = Sources(
        **msgspec.structs.asdict(process),
        partitions_max=section.metrics.max_partitions,
        lags_max=section.metrics.max_group_lags,
    )
    if others is not None:
        sources.others = others
    app = http_app(
        section,
        binary.dispatcher,
        rules,
        revocations,
        metrics=Metrics(binary.dispatcher, sources),
        unfinished=binary.unfinished,
    )
    return HttpListener(
        sock, app, admission=process.admission, context=context, stopping=app.stopping
    )


def http_app(
    section: HttpSection,
    dispatcher: Dispatcher,
    rules: TokenRules,
    revocations: Revocations,
    *,
    metrics: Metrics,
    unfinished: Unfinished,
) -> HttpApp:
    """The application that answers calls as the section says."""
    options = HttpOptions(
        body_bytes_max=section.max_request_size,
        cors=cors_of(section.cors),
        metrics_path=section.metrics.endpoint if section.metrics.enabled else None,
    )
    services = dispatcher.services
    authenticator = Authenticator(
        rules.issuing,
        rules.policy,
        rules.others,
        revocations,
        lambda: services.metadata.state,
        services.clock,
    )
    return HttpApp(dispatcher, authenticator, options, metrics=metrics, unfinished=unfinished)


def cors_of(section: CorsSection) -> Cors | None:
    if not section.enabled:
        return None
    return Cors(
        section.allowed_methods,
        section.allowed_origins,
        section.allowed_headers,
        section.exposed_headers,
        section.allow_credentials,
        section.allow_private_network,
    )
