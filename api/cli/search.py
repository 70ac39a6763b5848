"""One search by text without a server: queries the engine directly and returns each hit as a JSON object, as a server
with the configuration would answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from aidre.api.cli.console import printable
from aidre.api.cli.filter_option import read_filter
from aidre.api.config import FusionSettings, Settings
from aidre.api.retrieval import (
    RELEVANT,
    LocalAnswer,
    Question,
    best_of,
    resolve_mode,
    scale_of,
    search_forgiving,
)
from aidre.engine.embedding import Embedder, load_stored
from aidre.engine.errors import InvalidInput, ModelUnavailable
from aidre.engine.index.fields import field_name
from aidre.engine.model import EmbeddingSpace, Fusion, Highlight, HighlightLimits, Json, Mode, Query, Rescore
from aidre.engine.ports import Reader, can_fuse
from aidre.engine.types import Facet, Hit

VALUES: Final = 10
"""Values of a facet."""


class Asked(NamedTuple):
    """`filter` is JSON text; without a `mode` the best mode of the collection is used. `facets` are names of fields.
    With `correct` a text that finds little is answered without what may be typing errors in it."""

    text: str
    k: int
    filter: str | None = None
    mode: Mode | None = None
    facets: Sequence[str] = ()
    correct: bool = True


class Found(NamedTuple):
    """The hits as records, best first, and where the words of the query are in each; `fits`: the best is relevant."""

    records: list[dict[str, Json]]
    marks: list[Highlight]
    facets: dict[str, Facet]
    fits: bool
    corrected: str | None
    suggestion: str | None


def find(
    reader: Reader, asked: Asked, settings: Settings, note: Callable[[str], None], models: Models | None = None
) -> Found:
    """Fields of the filter that no document has, and models that cannot be loaded, are reported to `note`, once.

    Who searches often passes `models`, which keeps those that are loaded.
    """
    if not asked.text.strip():
        raise InvalidInput("QUERY must not be blank")
    parsed = None if asked.filter is None else read_filter(asked.filter)
    kept = models or Models(settings, note)

    def ask(text: str) -> Query:
        return replace(_query(reader, asked, settings, kept, text), filter=parsed)

    answer = search_forgiving(reader, asked.text, ask) if asked.correct else _typed(reader, ask(asked.text))
    query, hits = answer.query, answer.hits
    for name in () if parsed is None else reader.unknown_fields(parsed):
        note(f"--filter: no document has {printable(name)}")
    relevances = scale_of(reader, query, best_of(reader, query, hits)).relevances(hit.score for hit in hits)
    said = {"corrected": answer.corrected, "suggestion": answer.suggestion}
    more = {name: text for name, text in said.items() if text is not None}
    ranked = enumerate(zip(hits, relevances, strict=True), 1)
    return Found(
        records=[_record(rank, hit, relevance) | more for rank, (hit, relevance) in ranked],
        marks=reader.highlight(str(query.text), hits, HighlightLimits()) if reader.can.highlight else [],
        facets=_count(reader, asked.facets, query),
        fits=bool(relevances) and relevances[0] >= RELEVANT,
        corrected=answer.corrected,
        suggestion=answer.suggestion,
    )


def _typed(reader: Reader, query: Query) -> LocalAnswer:
    return LocalAnswer(query, reader.search(query))


def _count(reader: Reader, names: Sequence[str], query: Query) -> dict[str, Facet]:
    if names and not reader.can.facets:
        raise InvalidInput("--facets: the engine of this collection lacks the capability facets")
    text = query.text if query.mode == "lexical" else None
    return {name: reader.facet(field_name(name), query.filter, text=text, limit=VALUES) for name in names}


class Models:
    """The models of spaces, each loaded once, and notes, each given once."""

    def __init__(self, settings: Settings, note: Callable[[str], None]) -> None:
        load = partial(load_stored, runtime=settings.embedding.runtime, endpoints=settings.endpoints)
        self.load: Callable[[EmbeddingSpace], Embedder] = cache(load)
        self.note: Callable[[str], None] = cache(note)

    def embed(self, space: EmbeddingSpace, text: str) -> NDArray[np.float32]:
        """ModelUnavailable."""
        [vector] = self.load(space).embed_queries([text])
        return cast("NDArray[np.float32]", vector)


def _query(reader: Reader, asked: Asked, settings: Settings, models: Models, text: str) -> Query:
    ours = settings.collection(reader.collection.name)
    mode, vector, space_id = _embed(reader, Question(1, text=text, mode=asked.mode), ours.spaces, models)
    query = Query(vector, space_id, asked.k, text=text, mode=mode)
    if mode != "hybrid":
        return query
    fusion = ours.fusion
    return replace(query, fusion=Fusion(fusion.a, fusion.c), rescore=_rescore(reader, fusion, text, models))


def _embed(
    reader: Reader, question: Question, order: Sequence[str] | None, models: Models
) -> tuple[Mode, NDArray[np.float32] | None, str | None]:
    """The mode to search in, and the vector of the text with the id of its space if that mode needs one.

    Without a requested mode a missing model degrades to a lexical search. Raises Unprocessable, ModelUnavailable.
    """
    mode, space = resolve_mode(reader, question, order=order)
    if space is None:
        return mode, None, None
    try:
        return mode, models.embed(space, str(question.text)), space.id
    except ModelUnavailable as error:
        if question.mode is not None or not reader.can.lexical:
            raise
        models.note(f"lexical search only: {error}")
        return "lexical", None, None


def _rescore(reader: Reader, fusion: FusionSettings, text: str, models: Models) -> Rescore | None:
    """The configured re-ranking by another space, if the collection has that space and its model loads."""
    for space in reader.collection.spaces:
        if space.id == fusion.rescore and space.model is not None and can_fuse(reader, space):
            try:
                return Rescore(models.embed(space, text), space.id, fusion.depth)
            except ModelUnavailable as error:
                models.note(f"without {space.id}: {error}")
    return None


def _record(rank: int, hit: Hit, relevance: float) -> dict[str, Json]:
    chunk = hit.chunk
    _, source, metadata, _ = chunk.fragments
    return {
        "rank": rank,
        "id": chunk.id,
        "document_id": chunk.document_id,
        "score": hit.score,
        "relevance": relevance,
        "source": json.loads(source),
        "metadata": json.loads(b"{%b}" % metadata),
        "text": chunk.text,
    }
