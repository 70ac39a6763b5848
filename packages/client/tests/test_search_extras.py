"""Facets, highlights, relevance and corrections beside the hits: of a server as of the library over the same store."""

from __future__ import annotations

import json
from typing import Any

import pytest

import aidre_client
from tests.support.fault_proxy import FaultyServer, answering
from tests.support.remote import connected


def test_a_server_names_the_fields_that_no_document_has(proxy: FaultyServer) -> None:
    wrong = {"kin": {"ne": 1}, "id": {"in": ["a b/1", "a b/2"]}}
    with connected(proxy.url) as client:
        docs = client.collection("docs")
        found = docs.search("alpha", filter=wrong)
        assert (sorted(hit.document_id for hit in found), found.unknown_fields) == (["a b/1", "a b/2"], ("kin",))
        assert docs.search("alpha", filter={"title": "T7"}).unknown_fields == ()
        assert docs.search_many(["alpha", "word"], filter=wrong).unknown_fields == ("kin",)
        with pytest.raises(aidre_client.InvalidFilter, match="mode lexical"):
            docs.search("alpha", filter={"text": {"ne": "a"}})


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
        asked: dict[str, Any]
        for asked in (
            {"facets": "even"},
            {"highlight": True},
            {"group": "document"},
            {"recall": 0.9},
            {"order": "n"},
            {"weights": (1, 1)},
            {"fusion": "rrf"},
        ):
            with pytest.raises(aidre_client.Unsupported) as caught:
                client.collection("docs").search("alpha", **asked)
            assert caught.value.details["capability"] in asked
    assert not any(asked.target == "/search" for asked in proxy.asked)
