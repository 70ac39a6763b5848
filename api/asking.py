"""One search by text without a server: the engine is asked directly, each hit becomes one JSON object."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import orjson

from aidre.api.console import plain
from aidre.api.settings import FusionSettings, Settings
from aidre.engine.embed import load_stored
from aidre.engine.errors import InvalidFilter, InvalidInput, ModelUnavailable, SpaceMissing
from aidre.engine.filters import Filter, parse_filter
from aidre.engine.fuse import can_fuse
from aidre.engine.model import Fusion, Json, Mode, Query, Rescore
from aidre.engine.snapshot import Hit, Snapshot


def records(
    snapshot: Snapshot,
    query: str,
    k: int,
    *,
    filter: str | None,
    mode: Mode | None,
    settings: Settings,
    note: Callable[[str], None],
) -> Iterator[dict[str, Json]]:
    """The best `k` hits, best first. `filter` is JSON text; without a `mode`, what the collection can do best.

    `note` is told of fields in the filter that no document has, and of a model that cannot be had.
    """
    if not query.strip():
        raise InvalidInput("QUERY must not be blank")
    parsed = None if filter is None else _filter(filter)
    for name in () if parsed is None else snapshot.unknown_fields(parsed):
        note(f"--filter: no document has {plain(name)}")
    vector, space = None, next((space for space in snapshot.collection.spaces if space.model), None)
    wanted = mode or ("lexical" if space is None else "hybrid" if can_fuse(space) else "dense")
    if wanted != "lexical":
        if space is None:
            name = snapshot.collection.name
            raise SpaceMissing(f"{name} has no space with a model, which mode {wanted} needs", embedding_space=None)
        try:
            [vector] = load_stored(space, runtime=settings.embedding.runtime).embed_queries([query])
        except ModelUnavailable as error:
            if mode is not None:
                raise
            note(f"by words alone: {error}")
            wanted = "lexical"
    asked = Query(vector, space.id if space and vector is not None else None, k, filter=parsed, text=query, mode=wanted)
    if wanted == "hybrid":
        fusion = settings.collection(snapshot.collection.name).fusion
        rescore = _rescore(snapshot, fusion, query, settings.embedding.runtime, note)
        asked = replace(asked, fusion=Fusion(fusion.a, fusion.c), rescore=rescore)
    return (_record(rank, hit) for rank, hit in enumerate(snapshot.search(asked), 1))


def _rescore(
    snapshot: Snapshot, fusion: FusionSettings, query: str, runtime: str, note: Callable[[str], None]
) -> Rescore | None:
    """The second look that the configuration asks for, where the collection has that space and its model loads."""
    for space in snapshot.collection.spaces:
        if space.id == fusion.rescore and space.model is not None and can_fuse(space):
            try:
                [vector] = load_stored(space, runtime=runtime).embed_queries([query])
                return Rescore(vector, space.id, fusion.depth)
            except ModelUnavailable as error:
                note(f"without {space.id}: {error}")
    return None


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
