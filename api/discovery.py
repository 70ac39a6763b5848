"""The AIDRE discovery document (3): what this caller may use here, and every default, limit and choice in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aidre.api.access import Caller
from aidre.api.cursor import LIFETIME_SECONDS
from aidre.api.retrieve import Retrieval, Shown
from aidre.engine.filters import MAX_DEPTH, MAX_NODES, MAX_VALUES
from aidre.engine.model import EmbeddingSpace

VERSION = "1"

SCORES = {
    "cosine": "cosine similarity, from -1 to 1",
    "dot": "inner product",
    "euclidean": "minus the euclidean distance, at most 0",
}

FILTER = (
    'a JSON object: {"field": value}, {"field": {"eq"|"ne"|"in"|"gt"|"gte"|"lt"|"lte"|"exists": value}}, '
    '{"and": [filter, ...]}, {"or": [filter, ...]} or {"not": filter}, over the metadata and type, site, url, '
    "updated_at and document_id; dates compare as instants; ne and not hold for a missing field"
)

BEHAVIOUR = {
    "score": "larger is better in every embedding space; results are ordered by score, then by id",
    "top_k": "a top_k above the maximum is clamped: meta.top_k is what was applied, meta.top_k_requested what was sent",
    "collection": "without collection the default one is searched, or the only one there is",
    "return": "unknown fields are ignored; text or vectors where they are not granted are refused with 422 "
    "unsupported_return_field",
    "normalization": "query vectors are normalised on receipt where the distance is cosine, where a zero vector is "
    "refused",
    "pagination": "meta.next_cursor goes into the request member cursor, with the same query, filter and collection; "
    "top_k and return may change; a cursor reads the generation it began in until it expires (409 conflict), without "
    "what has been deleted since",
    "media_types": "application/aidre+json is provisional and preferred; application/json is accepted and sent too",
    "null": "a request member that is null counts as absent; unknown request members are ignored",
}


def document(retrieval: Retrieval, caller: Caller, modes: Sequence[str]) -> dict[str, Any]:
    """The discovery document for this caller."""
    shown = list(retrieval.shown(caller, "aidre"))
    server = retrieval.settings.server
    base = server.base_url
    organization = {"organization": server.organization} if server.organization is not None else {}
    return {
        "version": VERSION,
        "service": "AIDRE",
        **organization,
        "endpoints": {
            "search": f"{base}/search",
            "collections": f"{base}/collections",
            "chunk": f"{base}/chunks/{{id}}",
        },
        "capabilities": _capabilities(shown, caller),
        "embedding_spaces": _spaces(shown),
        "auth": {"type": "none"},
        "modes": list(modes),
        "defaults": _defaults(retrieval, modes),
        "limits": _limits(retrieval),
        "filter": FILTER,
        "behaviour": BEHAVIOUR,
        "openapi": f"{base}/openapi.json",
    }


def _capabilities(shown: list[Shown], caller: Caller) -> dict[str, bool]:
    return {
        "query_text": any(space.model is not None for one in shown for space in one.snapshot.collection.spaces),
        "query_vector": True,
        "return_text": any(one.settings.return_text for one in shown),
        "return_semantic_payload": True,
        "return_vectors": caller.vectors and any(one.settings.return_vectors for one in shown),
        "delta_sync": False,
        "filter": True,
        "pagination": True,
    }


def _spaces(shown: list[Shown]) -> list[dict[str, Any]]:
    spaces = {space.id: space for one in shown for space in one.snapshot.collection.spaces}
    return [_space(space) for space in spaces.values()]


def _space(space: EmbeddingSpace) -> dict[str, Any]:
    return {
        "id": space.id,
        "dimensions": space.dimensions,
        "distance": space.distance,
        "normalized": space.normalized,
        "provider": space.provider,
        "model": space.model,
        "revision": space.revision,
        "score": SCORES[space.distance],
        "query_text": space.model is not None,
    }


def _defaults(retrieval: Retrieval, modes: Sequence[str]) -> dict[str, Any]:
    return {
        "top_k": retrieval.settings.limits.top_k_default,
        "mode": modes[0],
        "return": {"ids": True, "metadata": True, "text": False, "semantic_payload": False, "vectors": False},
    }


def _limits(retrieval: Retrieval) -> dict[str, int]:
    limits = retrieval.settings.limits
    return {
        "top_k": limits.top_k_max,
        "results": retrieval.results_most,
        "cursor_seconds": LIFETIME_SECONDS,
        "query_chars": limits.query_chars,
        "body_bytes": limits.body_bytes,
        "filter_depth": MAX_DEPTH,
        "filter_nodes": MAX_NODES,
        "filter_values": MAX_VALUES,
    }
