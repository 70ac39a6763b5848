"""The `[oauth]` section: the accepted issuer, and what its tokens grant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from aidre.api.config.toml import Duration, Rate
from aidre.engine.errors import ConfigurationError

Algorithm: TypeAlias = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"
]
"""Asymmetric algorithms only: a verification key can then never be confused with an HMAC secret."""

HALF_A_MINUTE = Duration(30.0)


@dataclass(frozen=True, slots=True)
class OAuthGrant:
    """What a word of the scope claim grants."""

    collections: tuple[str, ...] = ()
    scopes: tuple[Literal["search", "vectors"], ...] = ("search",)


DEFAULT_GRANTS: Mapping[str, OAuthGrant] = {"search": OAuthGrant(), "vectors": OAuthGrant(scopes=("vectors",))}
"""The grants of the words `search` and `vectors`, unless the configuration overrides them."""


@dataclass(frozen=True, slots=True)
class OAuth:
    """Bearer tokens of one issuer: JSON Web Tokens, checked against its keys (a JWKS: a URL, or a file on this disk).

    `grants` maps each word of `scope_claim` to what it grants; `collections_claim` names a claim that lists
    collections. `rate` applies to each subject; `leeway` is the tolerated clock difference.
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
