"""One search by text without a server: the engine is asked directly, each hit becomes one JSON object."""

from __future__ import annotations

import json
from collections.abc import Iterator

import orjson

from aidre.engine.embed import load_stored
from aidre.engine.errors import InvalidFilter, InvalidInput, SpaceMissing
from aidre.engine.filters import Filter, parse_filter
from aidre.engine.fuse import can_fuse
from aidre.engine.model import Json, Mode, Query
from aidre.engine.snapshot import Hit, Snapshot


def records(
    snapshot: Snapshot, query: str, k: int, filter: str | None, mode: Mode | None
) -> Iterator[dict[str, Json]]:
    """The best `k` hits, best first. `filter` is JSON text; without a `mode`, what the collection can do best."""
    if not query.strip():
        raise InvalidInput("QUERY must not be blank")
    parsed = None if filter is None else _filter(filter)
    space = next((space for space in snapshot.collection.spaces if space.model), None)
    if mode is None:
        mode = "lexical" if space is None else "hybrid" if can_fuse(space) else "dense"
    vector = None
    if mode != "lexical":
        if space is None:
            name = snapshot.collection.name
            raise SpaceMissing(f"{name} has no space with a model, which mode {mode} needs", embedding_space=None)
        [vector] = load_stored(space).embed_queries([query])
    asked = Query(vector, None if space is None else space.id, top_k=k, filter=parsed, text=query, mode=mode)
    return (_record(rank, hit) for rank, hit in enumerate(snapshot.search(asked), 1))


def _filter(text: str) -> Filter:
    try:
        return parse_filter(orjson.loads(text))  # as the server reads it
    except orjson.JSONDecodeError as error:
        raise InvalidFilter(f"--filter is not JSON: {error}") from None


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
