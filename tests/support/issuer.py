"""What the tests of OAuth tokens share: an issuer, its keys, and tokens that it signs."""

from __future__ import annotations

import base64
import json
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from aidre.api.access.jwt import TokenVerifier
from aidre.api.config.settings import OAuth

NOW = 1_800_000_000.0
ISSUER, AUDIENCE = "https://login.example.com", "https://ai.example.com"
RSA = RSAKey.generate_key(2_048, {"kid": "r", "use": "sig"})
EC = ECKey.generate_key("P-256", {"kid": "e"})
ED = OKPKey.generate_key("Ed25519", {"kid": "o"})
SIGNERS: dict[str, Key] = {"RS256": RSA, "ES256": EC, "Ed25519": ED}
CLAIMS = {
    "iss": ISSUER,
    "aud": AUDIENCE,
    "sub": "reader",
    "iat": int(NOW) - 10,
    "nbf": int(NOW) - 10,
    "exp": int(NOW) + 600,
    "scope": "openid search",
}


def public(*keys: Key) -> bytes:
    return json.dumps({"keys": [key.as_dict(private=False) for key in keys]}).encode()


def oauth(**members: Any) -> OAuth:
    return OAuth(ISSUER, AUDIENCE, jwks_uri="https://login.example.com/jwks", **members)


def signed(claims: dict[str, Any] | None = None, alg: str = "ES256", key: Key | None = None, **header: Any) -> bytes:
    key = key or SIGNERS[alg]
    heading = {"alg": alg, "kid": key.kid, **header}
    heading = {name: value for name, value in heading.items() if value is not None}
    registry = JWSRegistry(algorithms=[alg], strict_check_header=False)
    return jwt.encode(heading, CLAIMS if claims is None else claims, key, registry=registry).encode()


def without(*names: str, **changed: Any) -> dict[str, Any]:
    return {name: value for name, value in {**CLAIMS, **changed}.items() if name not in names}


class Issuer:
    """What is fetched, and how often."""

    def __init__(self, *keys: Key) -> None:
        self.document = public(*keys)
        self.fetched = 0
        self.broken: Exception | None = None
        self.now = NOW

    def load(self) -> bytes:
        self.fetched += 1
        if self.broken is not None:
            raise self.broken
        return self.document

    def tokens(self, settings: OAuth | None = None) -> TokenVerifier:
        return TokenVerifier(settings or oauth(), self.load, lambda: self.now)


def encoded(part: Any) -> str:
    content = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
