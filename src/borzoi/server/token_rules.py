"""Which tokens HTTP issues and accepts, from the settings: keys, and other issuers it trusts."""

import logging
from collections.abc import Mapping
from typing import Final

from borzoi.model.identifiers import ROOT_USER_ID
from borzoi.model.limits import NEVER
from borzoi.model.value import Value
from borzoi.security.jwt import NEVER_SECONDS, Issuing, Key, OtherIssuer, Policy, hmac_key
from borzoi.server.transport_settings import JwtSection

log = logging.getLogger(__name__)

SECOND_US: Final = 1_000_000


class TokenRules(Value):
    """How tokens are issued, and which are accepted."""

    issuing: Issuing
    policy: Policy
    others: Mapping[str, OtherIssuer]


def token_rules(section: JwtSection) -> TokenRules:
    """Raises InvalidConfiguration when a key cannot be used."""
    expiry, leeway = section.access_token_expiry, section.clock_skew / SECOND_US
    issuing = Issuing(
        key_of(section),
        section.issuer,
        section.audience,
        NEVER_SECONDS if expiry == NEVER else expiry // SECOND_US,
        section.not_before // SECOND_US,
    )
    policy = Policy(section.valid_issuers, section.valid_audiences, leeway)
    return TokenRules(issuing, policy, others_of(section))


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
