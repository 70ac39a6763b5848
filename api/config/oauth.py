"""The `[oauth]` section: the accepted issuer, and what its tokens grant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from aidre.api.config.origins import check_url
from aidre.api.config.toml import CollectionName, Duration, Rate, Section, Text, like

Algorithm: TypeAlias = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"
]
"""Asymmetric algorithms only: a verification key can then never be confused with an HMAC secret."""
Scope: TypeAlias = Literal["search", "vectors", "write"]


class OAuthGrant(Section):
    """What a word of the scope claim grants. Without a grant of their own, the words `search` and `vectors` grant the
    scope of that name."""

    collections: tuple[CollectionName, ...] = ()  #: Collections beside the public ones.
    scopes: tuple[Scope, ...] = ("search",)  #: `vectors`: also to get vectors, and to ask by them.


DEFAULT_GRANTS: Mapping[str, OAuthGrant] = {"search": OAuthGrant(), "vectors": OAuthGrant(scopes=("vectors",))}
"""The grants of the words `search` and `vectors`, unless the configuration overrides them."""


class OAuth(Section):
    """Bearer tokens of one issuer, accepted beside the keys: JSON Web Tokens, checked against the issuer's keys, which
    either `jwks_uri` or `jwks` names."""

    issuer: Annotated[Text, like("https://login.example.com")]  #: The issuer, as the claim `iss` names it.
    audience: Annotated[Text, like("https://ai.example.com")]  #: What the claim `aud` must contain.
    jwks_uri: Annotated[str, like("https://login.example.com/jwks")] | None = None  #: The issuer's keys, a URL.
    jwks: Annotated[str, like("issuer.jwks.json")] | None = None  #: The same as a file, searched beside this one first.
    algorithms: tuple[Algorithm, ...] = ("RS256", "ES256", "EdDSA", "Ed25519")  #: Accepted for signatures.
    scope_claim: Text = "scope"  #: The claim whose words grant.
    collections_claim: Annotated[str, like("groups")] | None = None  #: A claim that lists collections, and grants them.
    grants: Mapping[str, OAuthGrant] = {}
    rate: Rate | None = None  #: The rate of each subject; without it `limits.rate` applies.
    leeway: Duration = Duration(30)  #: The tolerated difference between clocks, at most five minutes.

    def __post_init__(self) -> None:
        check_url(self.jwks_uri, ".jwks_uri")
        if (self.jwks_uri is None) == (self.jwks is None):
            raise ValueError("needs exactly one of jwks_uri (an https:// address) and jwks (a file)")
        if not self.algorithms:
            raise ValueError(".algorithms must name at least one algorithm, such as ES256")
        if not 0 <= self.leeway <= 300:
            raise ValueError(f".leeway must be at most 5m, not {self.leeway:g} seconds")
