"""The `[oauth]` part of the configuration: whose tokens are accepted, and what they open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from aidre.api.tables import Duration, Rate
from aidre.engine.errors import ConfigurationError

Algorithm: TypeAlias = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"
]
"""Signatures by a key of which only the issuer has the secret half. None of them can be confused with an HMAC."""

HALF_A_MINUTE = Duration(30.0)


@dataclass(frozen=True, slots=True)
class OAuthGrant:
    """What a word in the scope claim opens."""

    collections: tuple[str, ...] = ()
    scopes: tuple[Literal["search", "vectors"], ...] = ("search",)


BY_NAME: Mapping[str, OAuthGrant] = {"search": OAuthGrant(), "vectors": OAuthGrant(scopes=("vectors",))}
"""What the house's own words open, where the configuration says nothing else of them."""


@dataclass(frozen=True, slots=True)
class OAuth:
    """Bearer tokens of one issuer: JSON Web Tokens, checked against its keys (a JWKS: a URL, or a file on this disk).

    `grants` says what each word of `scope_claim` opens; `collections_claim` names a claim that lists collections
    itself. `rate` is for each subject; `leeway` forgives clocks.
    """

    issuer: str
    audience: str
    jwks_uri: str | None = None
    jwks: str | None = None
    algorithms: tuple[Algorithm, ...] = ("RS256", "ES256", "EdDSA", "Ed25519")
    scope_claim: str = "scope"
    collections_claim: str | None = None
    grants: Mapping[str, OAuthGrant] = field(default_factory=dict)
    rate: Rate | None = None
    leeway: Duration = HALF_A_MINUTE


def check_oauth(oauth: OAuth) -> None:
    """Raises ConfigurationError."""
    for name in ("issuer", "audience", "scope_claim"):
        if not getattr(oauth, name):
            raise ConfigurationError(f"oauth.{name} must not be empty")
    if (oauth.jwks_uri is None) == (oauth.jwks is None):
        raise ConfigurationError("oauth needs exactly one of jwks_uri (an https:// address) and jwks (a file)")
    if oauth.jwks_uri is not None and urlsplit(oauth.jwks_uri).query:
        raise ConfigurationError("oauth.jwks_uri must have no query")
    if not oauth.algorithms:
        raise ConfigurationError("oauth.algorithms must name at least one algorithm, such as ES256")
    if not 0 <= oauth.leeway <= 300:
        raise ConfigurationError(f"oauth.leeway must be at most 5m, not {oauth.leeway:g} seconds")
