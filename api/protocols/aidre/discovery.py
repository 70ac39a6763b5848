"""The AIDRE discovery document (3): the capabilities of a caller, and every default, limit and choice in words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import structs

from aidre.api.access import Caller, may_query_by_vector
from aidre.api.config import Settings
from aidre.api.http import present
from aidre.api.protocols.aidre.browsing import BROWSING, milliseconds_of
from aidre.api.protocols.aidre.changes import CHANGES_DEFAULT, CHANGES_MAX
from aidre.api.protocols.aidre.extensions import FUSION, GROUP, ORDER, WEIGHTS, extensions
from aidre.api.protocols.aidre.reading import READING
from aidre.api.protocols.aidre.search_messages import (
    FILTER,
    VERSION,
    Authentication,
    Defaults,
    Discovery,
    EmbeddingSpace,
    Endpoints,
    ReturnFields,
)
from aidre.api.protocols.aidre.suggestions import SUGGESTIONS_DEFAULT, SUGGESTIONS_MAX
from aidre.api.protocols.provenance import ProvenanceSigners
from aidre.api.retrieval import LIFETIME_SECONDS, Retrieval, VisibleCollection
from aidre.engine.index.fields import MAX_DEPTH, MAX_NODES, MAX_VALUES
from aidre.engine.model import COSTED_RESULTS, MAX_NORM, RECALLS, Mode
from aidre.engine.retrieve import RELEVANT, is_lexical, tells_words
from aidre.engine.storage import PROMISED_SECONDS

NLWEB, NLWEB_DIALECTS = "0.55", ("0.55", "0.54")
"""The version of NLWeb that is answered, and those whose requests are answered in their own form."""
SCORES = {
    "cosine": "cosine similarity, from -1 to 1",
    "dot": "inner product",
    "euclidean": "minus the euclidean distance, at most 0",
}

BEHAVIOUR = {
    "score": "larger is better in every embedding space; results are ordered by score, then by id",
    "relevance": "a result of a text query has relevance beside its score: 0 to 1, on one scale for all modes and "
    "collections; from extensions.relevance.bound on it counts as relevant; top_k results come all the same",
    "mode": "how query is answered: dense compares vectors, lexical words (score: BM25), hybrid both (score: "
    "a * cosine + (1 - a) * bm25 / (bm25 + c), by BM25+ and with a bonus for rare codes such as part numbers; the best "
    "hits are then ordered anew, by what the first ones have in common or in a second space: meta.reranked says by "
    "which); left out it is the first of the collection's modes: hybrid where "
    "it has a model, else lexical; one without lexical refuses that mode (422) and answers hybrid as dense; "
    "meta.mode says which; query_vector is always dense",
    "top_k": "a top_k above the maximum is clamped: meta.top_k is what was applied, meta.top_k_requested what was sent",
    "collection": "without collection the default one is searched, or the only one there is",
    "filter": "a field that no document has matches nothing (ne, not and exists: false hold); meta.ignored names it; "
    "text and section, unless they are metadata, are refused: query searches them",
    "return": "unknown fields are ignored; text or vectors where they are not granted are refused with 422 "
    "unsupported_return_field; where a collection returns no text, semantic_payload comes without what is text, or may "
    "be, and filters on such members are refused (400)",
    "budget": "where limits.chunks_per_day is: an answer with a chunk or with the object of its document is charged; "
    "facets of texts are refused (422); once it is spent, completions and lists of documents are, too (429)",
    "normalization": "query vectors are normalised on receipt where the distance is cosine or the space says "
    f"normalized: a zero vector is refused there; one longer than {MAX_NORM:.0e} is refused everywhere",
    "pagination": "meta.next_cursor goes into the request member cursor, with the same query, filter and collection; "
    "top_k and return may change; a cursor reads the generation it began in until it expires (409 conflict), without "
    "what has been deleted since",
    "changes": "endpoints.changes lists what happened to chunks, oldest first: op add, change or delete, id, "
    "content_hash, and the source of a chunk that still is as listed; without since all chunks come first, in no "
    "order, as add. Apply them in order, also one that comes again, and send next as since: at once while more is "
    "true, later to go on. An add or change sets what you hold under an id; a change may be of metadata alone. "
    "limit says how many at most, a larger one than the maximum is clamped. A token is good for changes_seconds; "
    "afterwards, and where the collection was made anew or purged, the answer is 410 gone: begin again without "
    "since, and forget what is not listed then",
    "correct": "a word of query that the collection lacks, near a word that it has or made of two, or two neighbours "
    "that are one word of it may be a typing error: "
    "where query as typed finds nothing relevant, or much less, the repaired text is answered and "
    "meta.corrected is that text; else meta.suggestion offers it; correct: false refuses both",
    "operators": "in query, a phrase in double quotes has to stand in a result as it is written, and -word (after a "
    "blank, of three letters and more) must not be in one; meta.understood says what was read; a phrase that stands "
    "nowhere is searched without quotes, and meta.corrected is that text; operators: false reads none; where a "
    "collection returns no text, none are read",
    "conditions": "numbers, dates and orders in words (under 400 euros, released after 2023, the newest) are "
    "conditions where a field of the collection is certain: meta.understood.conditions has the words, the filter or "
    "the order, and whether it is applied; others are offered there and change nothing; a filter that leaves nothing "
    "is dropped with a note; with an order the relevant results come first, in the order of the field, not of scores; "
    "operators: false reads none",
    "group": "document: a result is the best chunk of its document, and passages beside it are the next best ones, at "
    "most extensions.group.passages_max; top_k, limits.results and pages count documents, and no page repeats one; "
    "every passage is charged as a chunk; chunk if left out",
    "collapse": "with group document, a document whose best chunk is a near-copy of that of a better one is not a "
    "result: copies of that one counts it, and names up to extensions.group.copies_max; collapse: false makes it one",
    "order": "the relevant ones of the best extensions.order.results results come first, by the greatest number or "
    "date in the field order.field, those without one after them, and then the others by score; meta.ignored names a "
    "field that no document has; an order in the words of query has no effect then",
    "weights": "what vectors (dense) and words (lexical) count in mode hybrid, for this search alone, as numbers of at "
    "least 0 of which the ratio matters; other modes refuse it (400)",
    "fusion": "how mode hybrid joins vectors and words: score compares all that could be a result by both; rrf adds "
    "1 / (60 + rank) of each chunk in the lists that modes dense and lexical give, weighted by weights, of which each "
    "has extensions.fusion.ranks chunks, or as many as results are asked for; meta.fusion says so and how many, and a "
    "score is then a share of 1, that of a chunk that comes first in both; other modes refuse it (400)",
    "recall": "the share of the nearest vectors that a search finds: extensions.recall.values are calibrated, the next "
    "higher one answers another, 1 compares every vector; a lower one is faster: extensions.recall.collections has the "
    "default of each public collection and, by space, the milliseconds of a search for extensions.recall.results",
    "suggest": "endpoints.suggest completes the last word of q by the words of the collection, the most frequent "
    "first; limit says how many at most; a collection that does not return text refuses (403)",
    "media_types": "application/aidre+json is provisional and preferred; application/json is accepted and sent too",
    "null": "a request member that is null counts as absent; unknown request members are ignored",
}

VECTOR_ENCODING = {"base64": "float32, little-endian"}
"""What `query_vector` may be beside a list of numbers."""

WRITING = {
    "put": "PUT an array of rows, or one a line as application/x-ndjson: written all or none, durable when answered",
    "patch": "PATCH {documents}/{id} with an object of changed members, or {documents} with such objects by id; null "
    "removes; all or none, durable when answered",
    "delete": 'DELETE {documents}/{id}, or POST {"ids": [...]} or {"filter": ...} to {documents}/delete; a filter '
    "on a field that no document has is refused there unless allow_unknown is true",
    "generation": "the generation of an answer, sent as Aidre-Generation with a search, a query, a count, a completion "
    "or for a chunk of the collection: the answer has that write; without it every write is found within a second",
    "repeat": "the same Idempotency-Key with the same request again gets the first answer, for a day",
}
"""How documents are written."""


OF_WORDS = {
    "correct": True,
    "suggest": {"default": SUGGESTIONS_DEFAULT},
    "operators": ["phrase", "exclude", "conditions"],
}
"""Extensions where a collection may tell words of its texts."""


def document(retrieval: Retrieval, caller: Caller, provenance: ProvenanceSigners | None) -> Discovery:
    collections = list(retrieval.collections.visible(caller, "aidre"))
    modes = _modes(collections)
    settings = retrieval.settings
    return Discovery(
        version=VERSION,
        service="AIDRE",
        organization=present(settings.server.organization),
        endpoints=_endpoints(retrieval, caller, collections),
        capabilities=_capabilities(collections, caller),
        embedding_spaces=_spaces(collections),
        auth=Authentication(type="bearer", required=False) if settings.knows_callers else Authentication(type="none"),
        modes=modes,
        defaults=_defaults(retrieval, modes, collections),
        limits=_limits(retrieval, writes=_may_write(settings, caller)),
        filter=FILTER,
        extensions={
            "relevance": {"minimum": 0, "maximum": 1, "bound": RELEVANT},
            "query_vector": VECTOR_ENCODING,
            **(OF_WORDS if _tells_words(collections) else {}),
            "filter_operators": ["nin", "contains"],
            "group": GROUP,
            "order": ORDER,
            **({"weights": WEIGHTS, "fusion": FUSION} if "hybrid" in modes else {}),
            "browse": BROWSING,
            "read": READING,
            **extensions(collections),
            **_recall(collections),
            **_nlweb(retrieval, caller),
            **({"replica": {"protocols": ["aidre", "nlweb"]}} if retrieval.is_replica else {}),
            **({"documents": WRITING} if _may_write(settings, caller) else {}),
        },
        behaviour=BEHAVIOUR,
        provenance=present(None if provenance is None else provenance.declaration()),
        openapi=f"{settings.server.base_url}/openapi.json",
    )


def _nlweb(retrieval: Retrieval, caller: Caller) -> dict[str, Any]:
    """The extension `nlweb`: what `endpoints.nlweb` speaks, and where its promises are kept."""
    if not retrieval.collections.names(caller, "nlweb"):
        return {}
    base = retrieval.settings.server.base_url
    return {
        "nlweb": {
            "version": NLWEB,
            "dialects": list(NLWEB_DIALECTS),
            "await": f"{base}/await",
            "sites": f"{base}/sites",
        }
    }


def _recall(collections: list[VisibleCollection]) -> dict[str, Any]:
    """The extension `recall`: what may be asked for, and by public collection its default and what each recall costs in
    its spaces, as the document is the same for every caller; absent where no engine measures it."""
    measured = [collection for collection in collections if collection.snapshot.can.recall]
    if collections and not measured:
        return {}
    costs = {
        collection.name: {
            "default": collection.settings.recall,
            "milliseconds": {space["id"]: milliseconds_of(space) for space in collection.snapshot.status()["spaces"]},
        }
        for collection in measured
        if collection.visibility == "public"
    }
    return {"recall": {"values": [*RECALLS, 1.0], "results": COSTED_RESULTS, "collections": costs}}


def _tells_words(collections: list[VisibleCollection]) -> bool:
    return not collections or any(tells_words(collection.state) for collection in collections)


def _endpoints(retrieval: Retrieval, caller: Caller, collections: list[VisibleCollection]) -> Endpoints:
    settings = retrieval.settings
    base = settings.server.base_url
    origin = (settings.server.origin or str(base)).rstrip("/")
    speaks_nlweb = bool(retrieval.collections.names(caller, "nlweb"))
    return Endpoints(
        search=f"{base}/search",
        collections=f"{base}/collections",
        changes=f"{base}/collections/{{name}}/changes",
        chunk=f"{base}/chunks/{{id}}{{?collection}}",
        suggest=present(f"{base}/collections/{{name}}/suggest" if _tells_words(collections) else None),
        profile=f"{base}/collections/{{name}}/profile",
        browse=f"{base}/collections/{{name}}/browse",
        query=f"{base}/collections/{{name}}/query",
        count=f"{base}/collections/{{name}}/count",
        documents=present(f"{base}/collections/{{name}}/documents" if _may_write(settings, caller) else None),
        nlweb=present(f"{base}/ask" if speaks_nlweb else None),
        mcp=present(f"{base}/mcp" if speaks_nlweb else None),
        intent=present(f"{origin}/.well-known/aip.json" if settings.intent.declared else None),
        intake=present(f"{origin}/.well-known/agent-intake.json" if settings.intakes else None),
    )


def _may_write(settings: Settings, caller: Caller) -> bool:
    return settings.server.writes and caller.may_write


def _modes(collections: list[VisibleCollection]) -> list[Mode]:
    """Every mode that some collection has, or will have once it has a model, the default one first."""
    if collections and not any(is_lexical(collection.state) for collection in collections):
        return ["dense"]
    is_hybrid = not collections or any(collection.snapshot.can.hybrid for collection in collections)
    return ["hybrid", "dense", "lexical"] if is_hybrid else ["dense", "lexical"]


def _capabilities(collections: list[VisibleCollection], caller: Caller) -> dict[str, bool]:
    return {
        "query_text": any(collection.text_modes for collection in collections),
        "query_vector": any(
            collection.snapshot.collection.spaces and may_query_by_vector(caller, collection.settings)
            for collection in collections
        ),
        "return_text": any(collection.settings.return_text for collection in collections),
        "return_semantic_payload": True,
        "return_vectors": caller.vectors and any(collection.settings.return_vectors for collection in collections),
        "delta_sync": not collections or any(collection.snapshot.can.changes for collection in collections),
        "filter": True,
        "pagination": True,
    }


def _spaces(collections: list[VisibleCollection]) -> list[EmbeddingSpace]:
    spaces = {space.id: space for collection in collections for space in collection.snapshot.collection.spaces}
    return [
        EmbeddingSpace(
            id=space.id,
            dimensions=space.dimensions,
            distance=space.distance,
            normalized=space.normalized,
            provider=space.provider,
            model=None if space.model is None else _published(space.model),
            revision=space.revision,
            score=SCORES[space.distance],
            query_text=space.model is not None,
        )
        for space in spaces.values()
    ]


def _published(model: str) -> str:
    """The name of a model; of one in a folder of this machine that of the folder, whose place is nobody's business."""
    return Path(model).name if Path(model).is_absolute() or model.startswith((".", "~")) else model


def _defaults(retrieval: Retrieval, modes: Sequence[Mode], collections: list[VisibleCollection]) -> Defaults:
    default = retrieval.settings.server.default_collection
    return Defaults(
        collection=present(default if any(collection.name == default for collection in collections) else None),
        top_k=retrieval.settings.limits.top_k_default,
        mode=modes[0],
        changes=CHANGES_DEFAULT,
        return_=structs.asdict(ReturnFields()),
    )


def _limits(retrieval: Retrieval, *, writes: bool) -> dict[str, int]:
    limits = retrieval.settings.limits
    return {
        "top_k": limits.top_k_max,
        "results": retrieval.max_results,
        "cursor_seconds": LIFETIME_SECONDS,
        "changes": CHANGES_DEFAULT if limits.chunks_per_day else CHANGES_MAX,
        "changes_seconds": PROMISED_SECONDS,
        "suggestions": SUGGESTIONS_MAX,
        "query_chars": limits.query_chars,
        "body_bytes": limits.body_bytes,
        **({"write_bytes": limits.write_bytes} if writes else {}),
        "filter_depth": MAX_DEPTH,
        "filter_nodes": MAX_NODES,
        "filter_values": MAX_VALUES,
        **({"chunks_per_day": limits.chunks_per_day} if limits.chunks_per_day else {}),
    }
