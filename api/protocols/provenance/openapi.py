"""The OpenAPI description of the public keys and of the signature of a chunk."""

from __future__ import annotations

from typing import Any

from aidre.api.protocols.provenance.routes import MEDIA_TYPE
from aidre.api.protocols.provenance.service import WELL_KNOWN

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
KEY: Schema = {
    "type": "object",
    "required": ["kty", "crv", "x", "kid", "alg", "use"],
    "properties": {
        "kty": {"const": "OKP"},
        "crv": {"const": "Ed25519"},
        "x": {"type": "string", "pattern": "^[A-Za-z0-9_-]{43}$"},
        "kid": {"type": "string", "pattern": "^[A-Za-z0-9_-]{43}$"},
        "alg": {"enum": ["Ed25519", "EdDSA"]},
        "use": {"const": "sig"},
    },
    "not": {"required": ["d"]},
}
KEYS: Schema = {
    "type": "object",
    "required": ["keys"],
    "properties": {"keys": {"type": "array", "minItems": 1, "items": KEY}},
}
STATEMENT: Schema = {
    "type": "string",
    "pattern": r"^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]{86}$",
    "description": "a compact JWS over iss, sub (the chunk id), collection, content_hash, source_url, "
    "updated_at, iat and exp",
}
"""The schema of `metadata.provenance` in the answer to GET /chunks/{id}."""


def paths(refused: Schema) -> Schema:
    """The path item of the public keys; `refused` is the 401 response, for an unknown credential."""
    return {
        WELL_KNOWN: {
            "get": {
                "operationId": "listProvenanceKeys",
                "summary": "The public keys of signed provenance, newest first",
                "responses": {
                    "200": {"description": "A JWK set", "content": {MEDIA_TYPE: {"schema": KEYS}}},
                    "304": {"description": "The caller has it already"},
                    "401": refused,
                },
            }
        }
    }
