"""What signs in one process, as the configuration has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.requests import Request

from aidre.api.provenance.answers import COMPONENTS, LABEL, LIFETIME_SECONDS, TAG, AnswerSigner
from aidre.api.provenance.chunks import TYPE, ChunkSigner, Claims
from aidre.api.provenance.keys import ALGORITHM, Ring
from aidre.api.settings import Settings
from aidre.engine.segment import StoredChunk

WELL_KNOWN = "/.well-known/aidre-keys.json"


class Provenance:
    """The keys and the two signers. Its `issuer` is the origin on which the keys are published."""

    def __init__(self, ring: Ring, base_url: str, origin: str | None, lifetime: float) -> None:
        self.ring = ring
        self.issuer = (origin or base_url).rstrip("/")
        self.chunks = ChunkSigner(ring, self.issuer, lifetime)
        self.answers = AnswerSigner(ring, base_url)

    def chunk(self, collection: str, chunk: StoredChunk) -> str:
        """The statement about a chunk, for `metadata.provenance`."""
        return self.chunks.sign(Claims(collection, chunk.id, chunk.content_hash, chunk.url, chunk.updated_at))

    def declaration(self) -> dict[str, Any]:
        """What the discovery document says: where the keys are, and what is signed how."""
        return {
            "issuer": self.issuer,
            "jwks_uri": self.issuer + WELL_KNOWN,
            "alg": ALGORITHM,
            "typ": TYPE,
            "lifetime_seconds": self.chunks.lifetime,
            "responses": {
                "label": LABEL,
                "tag": TAG,
                "alg": ALGORITHM.lower(),
                "components": COMPONENTS.decode()[1:-1].split(" "),
                "lifetime_seconds": LIFETIME_SECONDS,
            },
        }


def provenance_for(settings: Settings) -> Provenance | None:
    """None where no key is configured; raises ConfigurationError where it cannot be read."""
    if settings.provenance.key is None:
        return None
    server = settings.server
    return Provenance(
        Ring(Path(settings.provenance.key)), str(server.base_url), server.origin, settings.provenance.lifetime
    )


def provenance_of(request: Request) -> Provenance | None:
    """What signs for the application that answers."""
    found: Provenance | None = request.app.state.provenance
    return found
