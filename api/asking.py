"""One search by text without a server: the engine is asked directly, each hit becomes one JSON object."""

from __future__ import annotations

import json
from collections.abc import Iterator

import orjson

from aidre.engine.embed import load_stored
from aidre.engine.errors import InvalidFilter, InvalidInput, SpaceMissing
from aidre.engine.filters import Filter, parse_filter
from aidre.engine.model import EmbeddingSpace, Json, Query
from aidre.engine.snapshot import Hit, Snapshot


def records(snapshot: Snapshot, query: str, k: int, filter: str | None) -> Iterator[dict[str, Json]]:
    """The best `k` hits, best first. `filter` is JSON text."""
    if not query.strip():
        raise InvalidInput("QUERY must not be blank")
    parsed = None if filter is None else _filter(filter)
    space = _text_space(snapshot)
    [vector] = load_stored(space).embed_queries([query])
    hits = snapshot.search(Query(vector, space=space.id, top_k=k, filter=parsed))
    return (_record(rank, hit) for rank, hit in enumerate(hits, 1))


def _filter(text: str) -> Filter:
    try:
        return parse_filter(orjson.loads(text))  # as the server reads it
    except orjson.JSONDecodeError as error:
        raise InvalidFilter(f"--filter is not JSON: {error}") from None


def _text_space(snapshot: Snapshot) -> EmbeddingSpace:
    for space in snapshot.collection.spaces:
        if space.model:
            return space
    name = snapshot.collection.name
    raise SpaceMissing(f"{name} has no space with a model, which a search by text needs", embedding_space=None)


def _record(rank: int, hit: Hit) -> dict[str, Json]:
    chunk = hit.chunk
    return {
        "rank": rank,
        "id": chunk.id,
        "document_id": chunk.document_id,
        "score": hit.score,
        "source": json.loads(chunk.json_source),
        "metadata": json.loads(b"{%b}" % chunk.json_metadata),
        "text": chunk.text,
    }
