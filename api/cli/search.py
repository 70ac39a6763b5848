"""One search by text without a server: queries the engine directly and returns each hit as a JSON object."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

from aidre.api.cli.console import printable
from aidre.api.config import FusionSettings, Settings
from aidre.api.retrieval import Question, resolve_mode
from aidre.engine.backend import Hit, Reader, can_fuse
from aidre.engine.embedding import Embedder, load_stored
from aidre.engine.errors import InvalidFilter, InvalidInput, ModelUnavailable
from aidre.engine.index.fields import Filter, parse_filter
from aidre.engine.model import EmbeddingSpace, Fusion, Json, Mode, Query, Rescore

Load: TypeAlias = Callable[[EmbeddingSpace], Embedder]


def search_records(
    reader: Reader,
    text: str,
    k: int,
    *,
    filter: str | None,
    mode: Mode | None,
    settings: Settings,
    note: Callable[[str], None],
    load: Load | None = None,
) -> Iterator[dict[str, Json]]:
    """The best `k` hits, best first. `filter` is JSON text; without a `mode` the best mode of the collection is used.
    Who searches often passes a `load` that keeps the models; without it they are loaded by the settings.

    Fields of the filter that no document has, and models that cannot be loaded, are reported to `note`.
    """
    if not text.strip():
        raise InvalidInput("QUERY must not be blank")
    parsed = None if filter is None else _parse_filter(filter)
    for name in () if parsed is None else reader.unknown_fields(parsed):
        note(f"--filter: no document has {printable(name)}")
    load = load or loader(settings)
    effective_mode, vector, space_id = _embed(reader, text, mode, load, note)
    query = Query(vector, space_id, k, filter=parsed, text=text, mode=effective_mode)
    if effective_mode == "hybrid":
        fusion = settings.collection(reader.collection.name).fusion
        rescore = _rescore(reader, fusion, text, load, note)
        query = replace(query, fusion=Fusion(fusion.a, fusion.c), rescore=rescore)
    return (_record(rank, hit) for rank, hit in enumerate(reader.search(query), 1))


def loader(settings: Settings) -> Load:
    """What loads the models of spaces, with the runtime and the endpoints of the settings."""
    return partial(load_stored, runtime=settings.embedding.runtime, endpoints=settings.endpoints)


def _embed(
    reader: Reader, text: str, mode: Mode | None, load: Load, note: Callable[[str], None]
) -> tuple[Mode, NDArray[np.float32] | None, str | None]:
    """The mode to search in, and the vector of the text with the id of its space if that mode needs one.

    Without a requested mode a missing model degrades to a lexical search. Raises Unprocessable, ModelUnavailable.
    """
    effective_mode, space = resolve_mode(reader, Question(1, text=text, mode=mode))
    if space is None:
        return effective_mode, None, None
    try:
        [vector] = load(space).embed_queries([text])
    except ModelUnavailable as error:
        if mode is not None or not reader.can.lexical:
            raise
        note(f"lexical search only: {error}")
        return "lexical", None, None
    return effective_mode, vector, space.id


def _rescore(
    reader: Reader, fusion: FusionSettings, text: str, load: Load, note: Callable[[str], None]
) -> Rescore | None:
    """The configured re-ranking by another space, if the collection has that space and its model loads."""
    for space in reader.collection.spaces:
        if space.id == fusion.rescore and space.model is not None and can_fuse(reader, space):
            try:
                [vector] = load(space).embed_queries([text])
                return Rescore(vector, space.id, fusion.depth)
            except ModelUnavailable as error:
                note(f"without {space.id}: {error}")
    return None


def _parse_filter(text: str) -> Filter:
    try:
        return parse_filter(orjson.loads(text))  # the parser of the server
    except orjson.JSONDecodeError as error:
        raise InvalidFilter(f"--filter is not JSON: {error}") from None


def _record(rank: int, hit: Hit) -> dict[str, Json]:
    chunk = hit.chunk
    _, source, metadata, _ = chunk.fragments
    return {
        "rank": rank,
        "id": chunk.id,
        "document_id": chunk.document_id,
        "score": hit.score,
        "source": json.loads(source),
        "metadata": json.loads(b"{%b}" % metadata),
        "text": chunk.text,
    }
