"""Facets, highlights, relevance and corrections: of a server as of the library over the same store."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import aidre
import aidre_client
from aidre.engine import open_source
from aidre.engine.types import Facet
from tests.support.fault_proxy import FaultyServer, faulty
from tests.support.pieces import fill_pieces, pieces
from tests.support.remote import connected

ASKED: list[dict[str, Any]] = [
    {"facets": "even"},
    {"facets": ["n", aidre_client.FacetRequest("even", limit=1)], "filter": {"n": {"lt": 9}}, "k": 3},
    {
        "facets": [aidre_client.FacetRequest("n", 3, [(None, 10), (10, 12.5), (100, None)], exclude_own=True)],
        "filter": {"n": 5},
    },
    {"facets": ["even"], "highlight": True, "mode": "lexical", "offset": 2, "k": 5},
    {"highlight": aidre_client.HighlightLimits(spans=1, snippets=0), "k": 120},
    {"correct": True, "mode": "lexical", "highlight": True},
    {"correct": True, "facets": "even"},
    {"operators": False, "mode": "lexical"},
    {"operators": True},
    {"group": "document", "highlight": True, "k": 3, "offset": 1},
    {"group": "document", "mode": "lexical", "filter": {"n": {"lt": 9}}},
    {"recall": 0.9, "facets": "even", "highlight": True},
    {"recall": 1, "k": 120, "group": "document"},
    {"order": "-n", "k": 7, "offset": 2},
    {"order": {"field": "n", "direction": "ascending"}, "group": "document", "weights": {"dense": 1, "lexical": 3}},
    {"weights": (0, 1), "k": 120},
    {"weights": {"dense": 2}, "highlight": True},
    {"fusion": "rrf", "weights": (1, 3), "k": 7, "group": "document", "offset": 2},
]


def told(hits: aidre_client.Hits) -> tuple[Any, ...]:
    facets = {
        name: (one.counts, one.documents, one.missing, one.ranges, one.distinct) for name, one in hits.facets.items()
    }
    relevance = None if hits.relevance is None else [round(one, 3) for one in hits.relevance]
    return (
        [hit.id for hit in hits],
        facets,
        list(hits.highlights),
        hits.corrected,
        hits.suggestion,
        relevance,
        hits.understood,
    )


TEXTS = ["alpha word 7", "alpah", "alpha wrod", "alpha -word", "alpha with n more than 9", '"word alpha" 7']


@pytest.mark.parametrize("asked", ASKED, ids=",".join)
@pytest.mark.parametrize("text", TEXTS)
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


def test_asynchronous_verbs_say_the_same(proxy: FaultyServer, store: Path) -> None:
    asked: dict[str, Any] = {"facets": "even", "highlight": True, "correct": True, "mode": "lexical"}

    async def both() -> list[aidre_client.Hits]:
        async with aidre_client.connect_async(proxy.url) as client, aidre.open_async(store) as db:
            return [await one.collection("docs").search("alpah", **asked) for one in (client, db)]

    there, here = asyncio.run(both())
    assert told(here) == told(there)
    assert here.corrected == "alpha"
    assert here.facets["even"].counts == ((False, 65), (True, 65))
    marks = here.highlights[0].text
    assert [here[0].text[start:end] for start, end in marks] == ["alpha"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"facets": 3}, "facets= is the name of a field"),
        ({"facets": []}, "the number of facets"),
        ({"facets": ["n", "n"]}, "names a field twice"),
        ({"facets": aidre_client.FacetRequest("n", limit=0)}, "limit must be a whole number"),
        ({"facets": aidre_client.FacetRequest("n", ranges=[(1, 2, 3)])}, "a list of at most 32 pairs"),  # type: ignore[list-item]
        ({"highlight": 1}, "highlight= is True, False"),
        ({"highlight": aidre_client.HighlightLimits(snippets=11)}, "snippets must be a whole number from 0 to 10"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_is_sent(
    proxy: FaultyServer, store: Path, asked: dict[str, Any], said: str
) -> None:
    with aidre.open(store) as db, connected(proxy.url) as client:
        for collection in (db.collection("docs"), client.collection("docs")):
            with pytest.raises(aidre_client.InvalidInput, match=said):
                collection.search("alpha", **asked)
            with pytest.raises(aidre_client.InvalidInput, match="highlight needs a text"):
                collection.search(vector=[1.0], highlight=True)
    assert proxy.asked == []


def test_a_collection_without_documents_has_facets_of_nothing(tmp_path: Path) -> None:
    with aidre.open(tmp_path) as db:
        found = db.collection("docs").search("tea", facets=["a"], highlight=True)
    assert (list(found), found.facets, found.relevance) == ([], {"a": Facet((), 0, 0, None, None)}, None)


def stated(hits: aidre_client.Hits) -> list[list[tuple[str, str, str]]]:
    """Of each passage its id, text and hash."""
    return [[(one.id, one.text, one.chunk.content_hash) for one in few] for few in hits.passages]


def test_documents_of_a_server_are_those_of_the_library(tmp_path: Path) -> None:
    fill_pieces(open_source(tmp_path), "ponds", pieces())
    with faulty(tmp_path) as (proxy, _), aidre.open(tmp_path) as db, connected(proxy.url) as client:
        local, remote = db.collection("ponds"), client.collection("ponds")
        for asked in ({"k": 7}, {"k": 5, "offset": 4, "mode": "lexical", "filter": {"even": False}}):
            here, there = (one.search("heron", group="document", **asked) for one in (local, remote))
            assert [hit.id for hit in there] == [hit.id for hit in here]
            assert len({hit.document_id for hit in there}) == asked["k"]
            assert stated(there) == stated(here)
        pages = list(remote.pages("heron", group="document", size=4))
        assert max(map(len, pages)) == 4
        assert sorted(hit.document_id for page in pages for hit in page) == sorted(one.document.id for one in pieces())
        with pytest.raises(aidre_client.InvalidInput, match="use chunk or document"):
            remote.search("heron", group="page")  # type: ignore[arg-type]

        async def found() -> list[str]:
            async with aidre_client.connect_async(proxy.url) as client:
                return [hit.id for hit in await client.collection("ponds").search("heron", k=7, group="document")]

        assert asyncio.run(found()) == [hit.id for hit in local.search("heron", k=7, group="document")]
