"""Signed statements about chunks, the signers of one process, built from the configuration, and the public keys for
every caller (RFC 7517)."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aidre.api.config import Settings
from aidre.api.http import cacheable_response
from aidre.api.protocols.provenance.answers import (
    COMPONENTS,
    LABEL,
    LIFETIME_SECONDS,
    TAG,
    AnswerSigner,
    signed_headers,
)
from aidre.api.protocols.provenance.keys import CURVE, MAX_LIFETIME_SECONDS, KeyRing, SigningKey, compact_jws
from aidre.api.server import Mounted
from aidre.engine.types import RetrievedChunk

TYPE = "aidre-provenance+jws"
CACHED_SIGNATURES = 4_096
"""Least recently used ones are dropped first."""


@dataclass(frozen=True, slots=True)
class ChunkClaims:
    """The signed facts about a chunk. `source_url` is None for a document without a URL."""

    collection: str
    chunk_id: str
    content_hash: str
    source_url: str | None
    updated_at: str


class ChunkSigner:
    """Signs chunks in one process: a compact JWS (RFC 7515) over canonical JSON (RFC 8785).

    A signature is made on demand and cached for half of its lifetime, so a returned one is valid for the other half.
    `lifetime` is in seconds, at most MAX_LIFETIME_SECONDS; `algorithm` is the name of Ed25519 in the header: that of
    RFC 9864, or "EdDSA", which some libraries know alone.
    """

    def __init__(
        self,
        ring: KeyRing,
        issuer: str,
        lifetime: float,
        *,
        algorithm: str = CURVE,
        clock: Callable[[], float] = time.time,
        cache_size: int = CACHED_SIGNATURES,
    ) -> None:
        self._ring = ring
        self._issuer = issuer
        self.algorithm = algorithm
        self.lifetime = min(int(lifetime), MAX_LIFETIME_SECONDS)
        self._clock = clock
        self._cache_size = cache_size
        self._key: SigningKey | None = None
        self._cache: OrderedDict[ChunkClaims, tuple[int, str]] = OrderedDict()

    def sign(self, claims: ChunkClaims) -> str:
        """A JWS that stays valid for at least half of its lifetime."""
        now = self._clock()
        self._follow_key()
        cached = self._cache.get(claims)
        if cached is not None and 0 <= now - cached[0] < self.lifetime / 2:
            self._cache.move_to_end(claims)
            return cached[1]
        token = self._make_token(claims, int(now))
        self._cache[claims] = int(now), token
        self._cache.move_to_end(claims)
        if len(self._cache) > self._cache_size:
            self._cache.popitem(last=False)
        return token

    @property
    def mark(self) -> str:
        """A part of a chunk's ETag. It changes with the key and every quarter of a lifetime.

        A chunk cached under the current mark has a signature that is valid for at least another quarter.
        """
        self._follow_key()
        period = int(self._clock() / self.fresh)
        return f"{self._ring.signing.public.id[:6]}.{period:x}"

    @property
    def fresh(self) -> float:
        """Seconds for which a client may cache a fetched or revalidated chunk; its signature stays valid for longer."""
        return self.lifetime / 4

    def _follow_key(self) -> None:
        """After a change of key, drop the signatures of the former one."""
        key = self._ring.signing
        if key is not self._key:
            self._key = key
            self._cache.clear()

    def _make_token(self, claims: ChunkClaims, issued: int) -> str:
        payload = {
            "iss": self._issuer,
            "sub": claims.chunk_id,
            "collection": claims.collection,
            "content_hash": claims.content_hash,
            "source_url": claims.source_url,
            "updated_at": claims.updated_at,
            "iat": issued,
            "exp": issued + self.lifetime,
        }
        return compact_jws(self._ring.signing, self.algorithm, TYPE, canonical_json(payload))


def canonical_json(claims: dict[str, str | int | None]) -> bytes:
    """RFC 8785 for an object of strings, integers and nulls with ASCII names."""
    return orjson.dumps(claims, option=orjson.OPT_SORT_KEYS)


WELL_KNOWN = "/.well-known/aidre-keys.json"


class ProvenanceSigners:
    """The key ring and the two signers. `issuer` is the origin that publishes the keys."""

    def __init__(self, ring: KeyRing, base_url: str, origin: str | None, lifetime: float, algorithm: str) -> None:
        self.ring = ring
        self.issuer = (origin or base_url).rstrip("/")
        self.chunks = ChunkSigner(ring, self.issuer, lifetime, algorithm=algorithm)
        self.answers = AnswerSigner(ring, base_url, origin)

    def chunk(self, collection: str, chunk: RetrievedChunk) -> str:
        """The signed statement about a chunk (a compact JWS), for `metadata.provenance`."""
        return self.chunks.sign(ChunkClaims(collection, chunk.id, chunk.content_hash, chunk.url, chunk.updated_at))

    def keys(self) -> bytes:
        """The JWK set of the public keys."""
        return self.ring.keys.document(self.chunks.algorithm)

    def declaration(self) -> dict[str, Any]:
        """The member of the discovery document: where the keys are, and how chunks and answers are signed."""
        return {
            "issuer": self.issuer,
            "jwks_uri": self.issuer + WELL_KNOWN,
            "alg": self.chunks.algorithm,
            "typ": TYPE,
            "lifetime_seconds": self.chunks.lifetime,
            "responses": {
                "label": LABEL,
                "tag": TAG,
                "alg": CURVE.lower(),
                "components": COMPONENTS.decode()[1:-1].split(" "),
                "lifetime_seconds": LIFETIME_SECONDS,
            },
        }


def provenance_for(settings: Settings) -> ProvenanceSigners | None:
    """The signers, or None if no key is configured. Raises ConfigurationError if the key cannot be read."""
    if settings.provenance.key is None:
        return None
    server, provenance = settings.server, settings.provenance
    ring = KeyRing(Path(settings.provenance.key))
    return ProvenanceSigners(ring, str(server.base_url), server.origin, provenance.lifetime, provenance.alg)


KEYS_MEDIA_TYPE = "application/jwk-set+json"
CACHE = "max-age=300"
"""A verifier that meets an unknown key id should fetch the set again at once."""


async def keys(request: Request) -> Response:
    provenance: ProvenanceSigners = request.app.state.provenance
    return cacheable_response(request, provenance.keys(), CACHE, KEYS_MEDIA_TYPE)


routes = [Route(WELL_KNOWN, keys, methods=["GET"])]


def mount(settings: Settings) -> Mounted:
    """Raises ConfigurationError for a key that cannot be read."""
    provenance = provenance_for(settings)
    if provenance is None:
        return Mounted(state={"provenance": None})
    return Mounted(
        routes=routes,
        state={"provenance": provenance},
        sign=partial(signed_headers, provenance.answers),
        refresh=provenance.ring.refresh,
    )
