"""For tests: what a client does with signed provenance, by libraries that others wrote."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from http_message_signatures import HTTPMessageVerifier, HTTPSignatureKeyResolver, VerifyResult, algorithms
from joserfc import jws, jwt
from joserfc.jwk import KeySet

from aidre.api.protocols.provenance.keys import KeyRing, make_key
from tests.support.clocks import Clock

COVERED = ('"@status"', '"content-type"', '"content-digest"', '"@method";req', '"@target-uri";req')

RFC9421_KEY = """-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50DFtMDoQikTmiCqirVv9mWG9qfSnF
-----END PRIVATE KEY-----
"""
"""test-key-ed25519 of RFC 9421, B.1.4."""


@pytest.fixture
def clock() -> Clock:
    """Begins now: the libraries that verify look at the time of the machine."""
    return Clock(time.time())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "keys.pem"
    make_key(made, time.time())
    return made


@pytest.fixture
def ring(path: Path) -> KeyRing:
    return KeyRing(path)


@dataclass
class Sent:
    """A request as its client sent it."""

    method: str
    url: str
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Received:
    """An answer as its client received it."""

    status_code: int
    headers: dict[str, str]
    body: bytes
    request: Sent

    @classmethod
    def of(cls, response: httpx.Response, url: str) -> Received:
        """What came, to a client that asked for `url`: in these tests no proxy stands before the application."""
        return cls(response.status_code, dict(response.headers), response.content, Sent(response.request.method, url))


class Published(HTTPSignatureKeyResolver):
    """The keys of a JWK set."""

    def __init__(self, document: bytes) -> None:
        self.set = KeySet.import_key_set(orjson.loads(document))

    def resolve_public_key(self, key_id: str) -> Ed25519PublicKey:
        key = self.set.get_by_kid(key_id)
        found = key.get_op_key("verify")
        assert isinstance(found, Ed25519PublicKey)
        return found

    def resolve_private_key(self, key_id: str) -> Any:
        raise AssertionError("a verifier has none")


def verified_answer(received: Received, document: bytes) -> VerifyResult:
    """What the signature of an answer covers; raises where it does not hold."""
    verifier = HTTPMessageVerifier(signature_algorithm=algorithms.ED25519, key_resolver=Published(document))
    [result] = verifier.verify(received, expect_tag="aidre-provenance", expect_label="aidre", body=received.body)
    assert tuple(result.covered_components)[:-1] == COVERED
    return result


def verified_chunk(token: str, document: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header and the claims of a chunk's JWS; raises where its signature does not hold or has run out."""
    keys = KeySet.import_key_set(orjson.loads(document))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # joserfc warns about the older name
        found = jwt.decode(token, keys, algorithms=["Ed25519", "EdDSA"])
        assert jws.deserialize_compact(token, keys, algorithms=["Ed25519", "EdDSA"]).payload.startswith(b"{")
    jwt.JWTClaimsRegistry(exp={"essential": True}, iat={"essential": True}).validate(found.claims)
    return found.header, found.claims
