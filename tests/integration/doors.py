"""Six doors to one store: each asks a question as its clients do, and says what it was answered in terms of hits.

AIDRE expresses everything that a search has, so the answer of every other door is held against that of AIDRE to the
same question, as far as the door can express it. `python -m tests.integration.doors` writes the answers of AIDRE to
`tests/integration/doors.json`, from which they may not move unnoticed.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

import aidre
from aidre.api.cli.main import run
from aidre.api.config.settings import parse_settings
from aidre.engine import open_source
from aidre.engine.embedding import embedder as embedding
from aidre.engine.embedding.graph import HashingEmbedder
from aidre.engine.embedding.weights import ModelWeights
from aidre.engine.errors import AidreError
from aidre.engine.model import EmbeddingSpace, Json
from tests import ROOT
from tests.integration.questions import (
    AWAY,
    GIVEN,
    OFFERED,
    PASSAGES,
    QUESTIONS,
    REFUSED,
    SHELVES,
    Door,
    Question,
    configuration,
    documents,
    ways,
)
from tests.support.clients import Client, serving
from tests.support.intent_platform import Platform
from tests.support.stores import put, record

GOLDEN: Final = ROOT / "tests" / "integration" / "doors.json"
RELEVANT: Final = 0.51
ALL: Final = 100
"""More hits than any question of NLWeb needs."""
KEPT: Final = 2e-4
"""Tolerance of kept scores and relevances, which have four digits."""
SESSION: Final = "0b9f2c0e-4a3c-4d3e-9f57-1f6f0c2b7a11"


@dataclass(frozen=True, slots=True)
class Found:
    """What a door says of an answer; None for what its protocol has no words for.

    `ids` are those of chunks, or of documents where the door answers with documents, each with its chunks in `chunks`.
    `refused` is the status and the code of an error, or what is said of it where there is none.
    """

    ids: tuple[str, ...] = ()
    scores: tuple[float, ...] | None = None
    relevance: tuple[float, ...] | None = None
    corrections: tuple[str | None, str | None] | None = None
    """The text that was answered in place of the one as typed, and the suggestion."""
    facets: Mapping[str, Json] | None = None
    highlights: tuple[Json, ...] | None = None
    chunks: tuple[tuple[str, ...], ...] | None = None
    mode: str | None = None
    space: str | None = None
    refused: str | None = None


# -- the store ---------------------------------------------------------------------------------------------------


class PlainModel:
    """Stands in for the default model: the same vectors on every processor. A plural is like its singular."""

    runtime = "plain"
    max_tokens = 1 << 20

    def __init__(self, space: EmbeddingSpace) -> None:
        self.space = replace(space, revision="plain;v1")
        self._hashing = HashingEmbedder(space)

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._hashing.embed_documents([" ".join(word.rstrip("s") for word in text.split()) for text in texts])

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.embed_documents(texts)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]


def load_plain(space: EmbeddingSpace, _: ModelWeights) -> PlainModel:
    return PlainModel(space)


def vector_of(name: str, dimensions: int) -> NDArray[np.float32]:
    """A vector of a space that no model fills: it depends on nothing but the name."""
    seed = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=4).digest(), "big")
    return np.random.default_rng(seed).normal(size=dimensions).astype(np.float32)


def fill(store: Path) -> None:
    """Writes the collections of all shelves, each with the same documents."""
    pairs = documents()
    records = [record(document.id, texts, **_members(document)) for document, texts in pairs]
    texts = [text for _, chunks in pairs for text in chunks]
    names = [chunk.id for one in records for chunk in one.chunks]
    source = open_source(store)
    for name, shelf in SHELVES.items():
        vectors, spaces = {}, []
        for space in shelf.spaces:
            if space in {GIVEN, AWAY}:
                vectors[space.id] = np.stack([vector_of(chunk, space.dimensions) for chunk in names])
                spaces.append(space)
            else:
                embedder = embedding.load_embedder(space)
                vectors[space.id] = embedder.embed_documents(texts)
                spaces.append(embedder.space)
        with source.writer(name, spaces=spaces) as writer:
            put(writer, records, vectors)  # type: ignore[arg-type]
            writer.commit()


def _members(document: aidre.Document) -> dict[str, Any]:
    names = ("title", "url", "type", "metadata", "updated_at")
    return {name: getattr(document, name) for name in names}


@dataclass
class Site:
    """The store behind all doors, and what each of them needs to ask it. Answers of AIDRE are kept."""

    store: Path
    config: Path
    client: Client

    @cached_property
    def library(self) -> aidre.Database:
        return aidre.open(self.store, config=self.config)

    @cached_property
    def platform(self) -> Platform:
        def send(method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, Mapping[str, str], bytes]:
            response = self.client.request(method, path, content=body, headers=headers)
            return response.status_code, dict(response.headers), response.content

        return Platform(send)

    @cached_property
    def kept(self) -> dict[str, Found]:
        return {}


@contextmanager
def site(folder: Path) -> Iterator[Site]:
    """The six doors over a store in an empty folder."""
    store, config = folder / "store", folder / "aidre.toml"
    config.write_text(configuration(), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(embedding.RUNTIMES, "auto", load_plain)
        fill(store)
        with serving(store, parse_settings(configuration())) as client:
            yield Site(store, config, client)


# -- the doors ---------------------------------------------------------------------------------------------------


def ask_aidre(place: Site, question: Question) -> Found:
    """`POST /search`; a later page through the cursors of those before it."""
    body = _search_body(place, question)
    for _ in range(question.page - 1):
        response = place.client.search(body)
        cursor = response.json().get("meta", {}).get("next_cursor")
        if cursor is None:
            return Found(corrections=(None, None), scores=(), relevance=None if question.text is None else ())
        body["cursor"] = cursor
    response = place.client.search(body)
    answer = response.json()
    if response.status_code != 200:
        return Found(refused=f"{response.status_code} {answer['error']}")
    results, meta = answer["results"], answer["meta"]
    return Found(
        ids=tuple(one["id"] for one in results),
        scores=tuple(one["score"] for one in results),
        relevance=None if question.text is None else tuple(one["relevance"] for one in results),
        corrections=(meta.get("corrected"), meta.get("suggestion")),
        facets={name: _facet(facet) for name, facet in answer["facets"].items()} if question.facets else None,
        highlights=tuple(one["highlight"] for one in results) if question.highlight else None,
        mode=meta["mode"],
        space=meta.get("embedding_space"),
    )


def _search_body(place: Site, question: Question) -> dict[str, Json]:
    body: dict[str, Json] = {"collection": question.shelf, "top_k": question.k, "correct": question.correct}
    if question.like is None:
        body["query"] = question.text
    else:
        body["query_vector"] = vector_like(place, question).tolist()
    given = {"embedding_space": question.space, "filter": question.filter, "mode": question.mode}
    body |= {name: value for name, value in given.items() if value is not None}
    if question.facets:
        body["facets"] = [
            {
                "field": one.field,
                "exclude_own": one.exclude_own,
                **({"ranges": [_ends(low, high) for low, high in one.ranges]} if one.ranges else {}),
            }
            for one in question.facets
        ]
    if question.highlight:
        body["highlight"] = True
    return body


def _ends(low: float | None, high: float | None) -> dict[str, float]:
    return {name: end for name, end in (("from", low), ("to", high)) if end is not None}


def _facet(facet: Mapping[str, Any]) -> Json:
    return {
        "documents": facet["documents"],
        "missing": facet["missing"],
        "distinct": facet["distinct"],
        "values": [[one["value"], one["count"]] for one in facet["values"]],
        "bounds": [facet.get("min"), facet.get("max")],
        "ranges": [one["count"] for one in facet.get("ranges", ())],
    }


def vector_like(place: Site, question: Question) -> NDArray[np.float32]:
    """The vector of the first chunk of a document, moved a little, so that no distance is 0."""
    [first, *_] = open_source(place.store).open(question.shelf).document(str(question.like))
    vector = first.vectors()[str(question.space)]
    return np.asarray(vector + 0.02 * vector_of("a little", len(vector)), np.float32)


def ask_nlweb(place: Site, question: Question) -> Found:
    """`POST /ask`, whose items are documents with a percentage."""
    query = {
        "text": question.text,
        "site": question.shelf,
        "limit": question.k,
        "start_num": (question.page - 1) * question.k,
        **(question.attributes or {}),
    }
    body = {"query": query, "prefer": {"correct": question.correct, "streaming": False}}
    response = place.client.request("POST", "/ask", json=body, headers={"content-type": "application/json"})
    answer = response.json()
    meta = answer["_meta"]
    corrections = meta.get("corrected"), meta.get("suggestion")
    if meta["response_type"] == "failure":
        if answer["error"]["code"] == "NO_RESULTS":
            return Found(relevance=(), corrections=corrections, chunks=())
        return Found(refused=f"{response.status_code} {answer['error']['code']}")
    items = answer["results"]
    return Found(
        ids=tuple(one["@id"] for one in items),
        relevance=tuple(one["score"] / 100 for one in items),
        corrections=corrections,
        chunks=tuple(tuple(one["grounding"]["chunk_ids"]) for one in items),
    )


def ask_intent(place: Site, question: Question) -> Found:
    """`POST /aip/retrieve`, which returns passages without scores."""
    path, request = "/aip/retrieve", place.platform.request(question.text, domain=f"of.{ways(question)}")
    status, answer = place.platform.verified(path, place.platform.post(path, request))
    if answer["status"] != "ok":
        code = answer["error"]["code"]
        return Found() if code == "no_results" else Found(refused=f"{status} {code}")
    return Found(ids=tuple(one["id"] for one in answer["content"]["chunks"]))


def ask_intake(place: Site, question: Question) -> Found:
    """`POST /intakes/{id}`, whose offer lists hits with their relevance; intakes of the questions take every hit."""
    body = {
        "aip_version": "0.1.0",
        "agent": {"id": "agent-1", "platform": "test", "consent_scope": ["intake", "offer"]},
        "intake_data": {"query": question.text},
        "session_id": SESSION,
    }
    path, headers = f"/intakes/{ways(question)}", {"content-type": "application/json"}
    response = place.client.request("POST", path, json=body, headers=headers)
    answer = response.json()
    if answer["status"] == "error":
        return Found(refused=f"{response.status_code} {answer['error']['code']}")
    items = answer["offer"]["details"]["items"] if answer["status"] == "offer" else []
    return Found(ids=tuple(one["id"] for one in items), relevance=tuple(one["score"] for one in items))


def ask_library(place: Site, question: Question) -> Found:
    """`aidre.open(...).collection(...).search(...)`."""
    facets = [aidre.FacetRequest(one.field, ranges=one.ranges, exclude_own=one.exclude_own) for one in question.facets]
    try:
        hits = place.library.collection(question.shelf).search(
            question.text,
            vector=None if question.like is None else vector_like(place, question),
            k=question.k,
            offset=(question.page - 1) * question.k,
            filter=question.filter,
            mode=question.mode,
            space=question.space,
            facets=facets or None,
            highlight=question.highlight,
            correct=question.correct,
        )
    except AidreError as error:
        return Found(refused=error.code)
    return Found(
        ids=tuple(hit.id for hit in hits),
        scores=tuple(hit.score for hit in hits),
        relevance=None if hits.relevance is None else tuple(hits.relevance),
        corrections=(hits.corrected, hits.suggestion),
        facets={name: _counted(facet) for name, facet in hits.facets.items()} if question.facets else None,
        highlights=tuple(_marks(one) for one in hits.highlights) if question.highlight else None,
    )


def _counted(facet: aidre.Facet) -> Json:
    return {
        "documents": facet.documents,
        "missing": facet.missing,
        "distinct": facet.distinct,
        "values": [list(pair) for pair in facet.counts],
        "bounds": [facet.minimum, facet.maximum],
        "ranges": list(facet.ranges),
    }


def _marks(found: Any) -> Json:
    names = ("text", "title", "section", "snippets")
    return {name: [list(span) for span in getattr(found, name)] for name in names}


def ask_command(place: Site, question: Question) -> Found:
    """`aidre search --json`, in this process."""
    words = ["search", str(question.text), "--store", place.store, "--config", place.config, "--json"]
    words += ["--collection", question.shelf, "-k", question.k, "--group", "chunk"]
    words += [] if question.filter is None else ["--filter", json.dumps(question.filter)]
    words += [] if question.mode is None else ["--mode", question.mode]
    words += [] if question.correct else ["--as-typed"]
    words += [word for one in question.facets for word in ("--facets", one.field)]
    printed, said = io.StringIO(), io.StringIO()
    with redirect_stdout(printed), redirect_stderr(said):
        status = run(list(map(str, words)))
    if status != 0:
        return Found(refused=said.getvalue())
    lines = [json.loads(line) for line in printed.getvalue().splitlines()]
    hits = [line for line in lines if "id" in line]
    facets = {name: _facet(facet) for line in lines if "facets" in line for name, facet in line["facets"].items()}
    return Found(
        ids=tuple(one["id"] for one in hits),
        scores=tuple(one["score"] for one in hits),
        relevance=tuple(one["relevance"] for one in hits),
        corrections=(hits[0].get("corrected"), hits[0].get("suggestion")) if hits else None,
        facets=facets if question.facets else None,
    )


ASK: Final[Mapping[Door, Callable[[Site, Question], Found]]] = {
    "aidre": ask_aidre,
    "nlweb": ask_nlweb,
    "intent": ask_intent,
    "intake": ask_intake,
    "library": ask_library,
    "command line": ask_command,
}


# -- what each can express ---------------------------------------------------------------------------------------


def can_ask(door: Door, question: Question) -> bool:
    """Whether a client of the door can put the question at all.

    What a server withholds from its callers is not a secret to who runs the library or a command over the store;
    Agentic Intent, which gives texts, does not open such a collection.
    """
    if door == "aidre":
        return True
    if question.shelf == "withheld" and door not in {"nlweb", "intake"}:
        return False
    if door == "library":
        return True
    if question.text is None or question.space is not None:
        return False
    if door == "command line":
        ranges = any(one.ranges or one.exclude_own for one in question.facets)
        return question.page == 1 and not ranges
    if question.mode is not None:
        return False
    if door == "nlweb":
        return question.attributes is not None
    return question.page == 1 and question in OFFERED


def expected(place: Site, door: Door, question: Question) -> Found:
    """The answer of AIDRE to the question, in the terms of the door."""
    if door in {"library", "command line"}:
        return of_aidre(place, question)
    if door == "nlweb":
        return _by_document(place, question)
    found = of_aidre(place, replace(question, correct=False, k=ALL if door == "intent" else question.k))
    if door == "intent" and found.relevance is not None:
        fitting = [id for id, relevance in zip(found.ids or (), found.relevance, strict=True) if relevance >= RELEVANT]
        return replace(found, ids=tuple(fitting[:PASSAGES]))
    return found


def of_aidre(place: Site, question: Question) -> Found:
    key = repr(question)
    if key not in place.kept:
        place.kept[key] = ask_aidre(place, question)
    return place.kept[key]


def _by_document(place: Site, question: Question) -> Found:
    """The relevant hits grouped by document, best first, and of these the page."""
    whole = of_aidre(place, replace(question, page=1, k=ALL))
    if whole.refused is not None:
        return whole
    pairs = [pair for pair in zip(whole.ids, whole.relevance or (), strict=True) if pair[1] >= RELEVANT]
    order = list(dict.fromkeys(_document_of(chunk) for chunk, _ in pairs))
    grouped = {
        name: list(group)
        for name, group in groupby(
            sorted(pairs, key=lambda pair: order.index(_document_of(pair[0]))), lambda pair: _document_of(pair[0])
        )
    }
    start = (question.page - 1) * question.k
    page = order[start : start + question.k]
    return Found(
        ids=tuple(page),
        relevance=tuple(grouped[name][0][1] for name in page),
        corrections=whole.corrections,
        chunks=tuple(tuple(chunk for chunk, _ in grouped[name]) for name in page),
    )


def _document_of(chunk: str) -> str:
    return chunk.partition("#")[0]


def differences(answer: Found, wanted: Found) -> list[str]:
    """Where an answer is another one than is wanted, in what both express."""
    if (answer.refused is None) != (wanted.refused is None):
        return [f"refused: {answer.refused} instead of {wanted.refused}"]
    found = [] if answer.ids == wanted.ids else [f"ids: {answer.ids} instead of {wanted.ids}"]
    for name in ("scores", "relevance"):
        ours, theirs = getattr(answer, name), getattr(wanted, name)
        if ours is not None and theirs is not None and list(ours) != pytest.approx(list(theirs), abs=1e-6, rel=0):
            found.append(f"{name}: {ours} instead of {theirs}")
    for name in ("corrections", "facets", "highlights"):
        ours, theirs = getattr(answer, name), getattr(wanted, name)
        if ours is not None and theirs is not None and ours != theirs:
            found.append(f"{name}: {ours} instead of {theirs}")
    if answer.chunks is not None and wanted.chunks is not None:
        # A door that answers with documents stops to search as soon as it has enough of them.
        pairs = zip(answer.chunks, wanted.chunks, strict=False)
        if not all(ours and ours == theirs[: len(ours)] for ours, theirs in pairs):
            found.append(f"chunks: {answer.chunks} instead of {wanted.chunks}")
    return found


# -- golden answers ----------------------------------------------------------------------------------------------


def golden(place: Site) -> dict[str, Json]:
    """The answers of AIDRE to all questions, by name, as they are kept."""
    return {question.name: to_kept(of_aidre(place, question)) for question in (*QUESTIONS, *REFUSED)}


def to_kept(found: Found) -> Json:
    """Scores and relevance in four digits; None and what is empty are left out."""
    corrected, suggestion = found.corrections or (None, None)
    kept = {
        "refused": found.refused,
        "mode": found.mode,
        "space": found.space,
        "corrected": corrected,
        "suggestion": suggestion,
        "ids": list(found.ids),
        "scores": [round(score, 4) for score in found.scores or ()],
        "relevance": [round(one, 4) for one in found.relevance or ()],
        "facets": found.facets,
        "highlights": found.highlights and list(found.highlights),
    }
    return {name: value for name, value in kept.items() if value}


def golden_differences(found: Found, kept: Mapping[str, Json]) -> list[str]:
    """Where an answer of AIDRE is another one than was kept. Scores may differ as instruction sets do."""
    ours = json.loads(json.dumps(to_kept(found)))
    different = []
    for name in sorted({*ours, *kept}):
        one, other = ours.get(name), kept.get(name)
        is_near = name in {"scores", "relevance"} and one is not None and one == pytest.approx(other, abs=KEPT, rel=0)
        if one != other and not is_near:
            different.append(f"{name}: {one} instead of {other}")
    return different


def main() -> int:
    """Writes the golden answers anew: look at the difference before it is committed."""
    with TemporaryDirectory() as folder, site(Path(folder)) as place:
        text = json.dumps(golden(place), indent=1, ensure_ascii=False)
    GOLDEN.write_text(_compact(text) + "\n", encoding="utf-8")
    return 0


def _compact(text: str) -> str:
    """Lists of plain values on one line each, so that a difference is one line."""
    return re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda one: "[" + re.sub(r",\s+", ", ", one[1]) + "]", text)


if __name__ == "__main__":
    sys.exit(main())
