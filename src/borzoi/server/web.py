"""The HTTP listener from its settings: keys of tokens, issuers that are believed, CORS."""

import logging
from collections.abc import Callable
from typing import Final

from borzoi.handlers.dispatch import Dispatcher
from borzoi.listeners.http.app import HttpApp, HttpOptions
from borzoi.listeners.http.authentication import Authenticator, Issuing, OtherIssuer, Revocations
from borzoi.listeners.http.cors import Cors
from borzoi.listeners.http.metrics import Metrics
from borzoi.listeners.unfinished import Unfinished
from borzoi.metadata.state import Metadata
from borzoi.model.identifiers import ROOT_USER_ID
from borzoi.model.limits import NEVER
from borzoi.security.jwt import NEVER_SECONDS, Key, Policy, hmac_key
from borzoi.server.transport_settings import CorsSection, HttpSection, JwtSection

log = logging.getLogger(__name__)

SECOND_US: Final = 1_000_000


def http_app(
    section: HttpSection,
    dispatcher: Dispatcher,
    revocations: Revocations,
    *,
    metrics: Metrics,
    unfinished: Unfinished,
) -> HttpApp:
    """The application that answers calls as the section says."""
    services = dispatcher.services
    options = HttpOptions(
        body_bytes_max=section.max_request_size,
        cors=cors_of(section.cors),
        metrics_path=section.metrics.endpoint if section.metrics.enabled else None,
    )
    authenticator = authenticator_of(
        section.jwt, revocations, lambda: services.metadata.state, services.clock
    )
    return HttpApp(dispatcher, authenticator, options, metrics=metrics, unfinished=unfinished)


def authenticator_of(
    section: JwtSection,
    revocations: Revocations,
    state: Callable[[], Metadata],
    clock: Callable[[], int],
) -> Authenticator:
    expiry, leeway = section.access_token_expiry, section.clock_skew / SECOND_US
    issuing = Issuing(
        key_of(section),
        section.issuer,
        section.audience,
        NEVER_SECONDS if expiry == NEVER else expiry // SECOND_US,
        section.not_before // SECOND_US,
    )
    policy = Policy(section.valid_issuers, section.valid_audiences, leeway)
    return Authenticator(issuing, policy, others_of(section), revocations, state, clock)


def key_of(section: JwtSection) -> Key:
    """What tokens are signed and checked with."""
    given = section.algorithm, section.encoding_secret, section.decoding_secret
    if section.algorithm.startswith("HS"):
        return hmac_key(*given, base64=section.use_base64_secret)
    # Imported here: only RSA and other issuers need it, and most servers have neither.
    from borzoi.security.jwks import rsa_key

    return rsa_key(*given, base64=section.use_base64_secret)


def others_of(section: JwtSection) -> dict[str, OtherIssuer]:
    """Return the other trusted issuers, by name."""
    if not section.trusted_issuers:
        return {}
    from borzoi.security.jwks import TrustedIssuer

    leeway = section.clock_skew / SECOND_US
    others: dict[str, OtherIssuer] = {}
    for one in section.trusted_issuers:
        if one.user_id == ROOT_USER_ID:
            # The file that 0.8 ships names such an issuer, so it must not end the start.
            log.warning(
                "http.jwt.trusted_issuers: tokens of %r would act as root and are refused",
                one.issuer,
            )
            continue
        others[one.issuer] = TrustedIssuer(
            one.issuer, one.audience, one.jwks_url, one.user_id, leeway=leeway
        )
    return others


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
