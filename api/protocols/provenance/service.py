"""The signers of one process, built from the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aidre.api.config import Settings
from aidre.api.protocols.provenance.answers import COMPONENTS, LABEL, LIFETIME_SECONDS, TAG, AnswerSigner
from aidre.api.protocols.provenance.chunks import TYPE, ChunkSigner, Claims
from aidre.api.protocols.provenance.keys import CURVE, KeyRing
from aidre.engine.types import RetrievedChunk

WELL_KNOWN = "/.well-known/aidre-keys.json"


class Provenance:
    """The key ring and the two signers. `issuer` is the origin that publishes the keys."""

    def __init__(self, ring: KeyRing, base_url: str, origin: str | None, lifetime: float, algorithm: str) -> None:
        self.ring = ring
        self.issuer = (origin or base_url).rstrip("/")
        self.chunks = ChunkSigner(ring, self.issuer, lifetime, algorithm=algorithm)
        self.answers = AnswerSigner(ring, base_url, origin)

    def chunk(self, collection: str, chunk: RetrievedChunk) -> str:
        """The signed statement about a chunk (a compact JWS), for `metadata.provenance`."""
        return self.chunks.sign(Claims(collection, chunk.id, chunk.content_hash, chunk.url, chunk.updated_at))

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


def provenance_for(settings: Settings) -> Provenance | None:
    """The signers, or None if no key is configured. Raises ConfigurationError if the key cannot be read."""
    if settings.provenance.key is None:
        return None
    server, provenance = settings.server, settings.provenance
    ring = KeyRing(Path(settings.provenance.key))
    return Provenance(ring, str(server.base_url), server.origin, provenance.lifetime, provenance.alg)
