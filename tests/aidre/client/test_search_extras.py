"""Facets, highlights, relevance and corrections beside the hits: of a server as of the library over the same store."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import aidre
from aidre.engine.types import Facet
from tests.aidre.client.conftest import connected
from tests.support.fault_proxy import FaultyServer, answering

ASKED: list[dict[str, Any]] = [
    {"facets": "even"},
    {"facets": ["n", aidre.FacetRequest("even", limit=1)], "filter": {"n": {"lt": 9}}, "k": 3},
    {
        "facets": [aidre.FacetRequest("n", 3, [(None, 10), (10, 12.5), (100, None)], exclude_own=True)],
        "filter": {"n": 5},
    },
    {"facets": ["even"], "highlight": True, "mode": "lexical", "offset": 2, "k": 5},
    {"highlight": aidre.HighlightLimits(spans=1, snippets=0), "k": 120},
    {"correct": True, "mode": "lexical", "highlight": True},
    {"correct": True, "facets": "even"},
]


def told(hits: aidre.Hits) -> tuple[Any, ...]:
    facets = {
        name: (one.counts, one.documents, one.missing, one.ranges, one.distinct) for name, one in hits.facets.items()
    }
    relevance = None if hits.relevance is None else [round(one, 3) for one in hits.relevance]
    return [hit.id for hit in hits], facets, list(hits.highlights), hits.corrected, hits.suggestion, relevance


@pytest.mark.parametrize("asked", ASKED, ids=",".join)
@pytest.mark.parametrize("text", ["alpha word 7", "alpah", "alpha wrod"])
def test_a_server_says_what_the_library_says(
    proxy: FaultyServer, store: Path, text: str, asked: dict[str, Any]
) -> None:
    with aidre.open(store) as db, connected(proxy.url) as client:
        here = db.collection("docs").search(text, **asked)
        there = client.collection("docs").search(text, **asked)
    assert told(here) == told(there)
    assert here.relevance is not None
    assert len(here) == len(here.relevance)
    assert len(here.highlights) == (len(here) if "highlight" in asked else 0)


def test_a_server_names_the_fields_that_no_document_has(proxy: FaultyServer) -> None:
    wrong = {"kin": {"ne": 1}, "id": {"in": ["a b/1", "a b/2"]}}
    with connected(proxy.url) as client:
        docs = client.collection("docs")
        found = docs.search("alpha", filter=wrong)
        assert (sorted(hit.document_id for hit in found), found.unknown_fields) == (["a b/1", "a b/2"], ("kin",))
        assert docs.search("alpha", filter={"title": "T7"}).unknown_fields == ()
        assert docs.search_many(["alpha", "word"], filter=wrong).unknown_fields == ("kin",)
        with pytest.raises(aidre.InvalidFilter, match="mode lexical"):
            docs.search("alpha", filter={"text": {"ne": "a"}})


def test_asynchronous_verbs_say_the_same(proxy: FaultyServer, store: Path) -> None:
    asked: dict[str, Any] = {"facets": "even", "highlight": True, "correct": True, "mode": "lexical"}

    async def both() -> list[aidre.Hits]:
        async with aidre.connect_async(proxy.url) as client, aidre.open_async(store) as db:
            return [await one.collection("docs").search("alpah", **asked) for one in (client, db)]

    there, here = asyncio.run(both())
    assert told(here) == told(there)
    assert here.corrected == "alpha"
    assert here.facets["even"].counts == ((False, 65), (True, 65))
    marks = here.highlights[0].text
    assert [here[0].text[start:end] for start, end in marks] == ["alpha"]


def test_facets_are_asked_for_once_and_a_text_whose_words_are_needed_is_sent(proxy: FaultyServer) -> None:
    with connected(proxy.url) as client:
        docs = client.collection("docs")
        assert len(docs.search("alpha", k=120, facets="even", highlight=True, mode="dense").highlights) == 120
        bodies = [json.loads(asked.body) for asked in proxy.asked if asked.target == "/search"]
        assert len(bodies) > 1
        assert [("facets" in body, "query" in body) for body in bodies] == [(True, True)] + [(False, True)] * len(
            bodies[1:]
        )
        assert docs.search(vector=[0.0] * 63 + [1.0], k=1).relevance is None


def test_a_server_without_the_extensions_is_not_asked(proxy: FaultyServer) -> None:
    discovery = {
        "version": "draft-batum-aidre-00",
        "endpoints": {"search": "/search"},
        "capabilities": {"query_text": True},
    }
    canned = answering(200, json.dumps(discovery).encode())
    proxy.plan = lambda asked: canned if asked.target == "/.well-known/ai-discovery" else None
    with connected(proxy.url) as client:
        for asked in ({"facets": "even"}, {"highlight": True}):
            with pytest.raises(aidre.Unsupported) as caught:
                client.collection("docs").search("alpha", **asked)
            assert caught.value.details["capability"] in asked
    assert not any(asked.target == "/search" for asked in proxy.asked)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"facets": 3}, "facets= is the name of a field"),
        ({"facets": []}, "the number of facets"),
        ({"facets": ["n", "n"]}, "names a field twice"),
        ({"facets": aidre.FacetRequest("n", limit=0)}, "limit must be a whole number"),
        ({"facets": aidre.FacetRequest("n", ranges=[(1, 2, 3)])}, "a list of at most 32 pairs"),  # type: ignore[list-item]
        ({"highlight": 1}, "highlight= is True, False"),
        ({"highlight": aidre.HighlightLimits(snippets=11)}, "snippets must be a whole number from 0 to 10"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_is_sent(
    proxy: FaultyServer, store: Path, asked: dict[str, Any], said: str
) -> None:
    with aidre.open(store) as db, connected(proxy.url) as client:
        for collection in (db.collection("docs"), client.collection("docs")):
            with pytest.raises(aidre.InvalidInput, match=said):
                collection.search("alpha", **asked)
            with pytest.raises(aidre.InvalidInput, match="highlight needs a text"):
                collection.search(vector=[1.0], highlight=True)
    assert proxy.asked == []


def test_a_collection_without_documents_has_facets_of_nothing(tmp_path: Path) -> None:
    with aidre.open(tmp_path) as db:
        found = db.collection("docs").search("tea", facets=["a"], highlight=True)
    assert (list(found), found.facets, found.relevance) == ([], {"a": Facet((), 0, 0, None, None)}, None)
