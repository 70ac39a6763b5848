"""The extensions `facets` and `highlight` of AIDRE's searches, as the discovery document advertises them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients import PLAIN, TEXT, Client, a_document, fill, serving, vector_of
from tests.support.discovery import DISCOVERY, documents, refused

pytestmark = pytest.mark.needs("facets", "highlight", "lexical")
_ALL = documents()


def _facets(client: Client, *facets: Any, **body: Any) -> dict[str, Any]:
    response = client.search({"query": "alpha", "facets": list(facets), **body})
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()["facets"]
    return found


def test_discovery_advertises_both_with_their_limits(client: Client) -> None:
    extensions = client.get(DISCOVERY).json()["extensions"]
    assert extensions["facets"]["limit_max"] == 1_000
    assert extensions["highlight"]["snippets"] == 1


def test_an_answer_has_neither_unless_it_is_asked_for(client: Client) -> None:
    body = client.search({"query": "alpha", "facets": [], "highlight": False}).json()
    assert "facets" not in body
    assert all("highlight" not in result for result in body["results"])


def test_facets_count_the_documents_of_all_matches_and_not_of_the_page(client: Client) -> None:
    facet = _facets(client, "even", top_k=1)["even"]
    expected: Counter[bool] = Counter(document.metadata["even"] for document in _ALL if "even" in document.metadata)
    assert {one["value"]: one["count"] for one in facet["values"]} == expected
    assert (facet["documents"], facet["missing"]) == (len(_ALL), len(_ALL) - sum(expected.values()))
    assert "min" not in facet
    assert "ranges" not in facet


def test_a_lexical_search_counts_the_documents_with_a_word_of_the_query(client: Client) -> None:
    for mode, count in (("lexical", 7), ("hybrid", len(_ALL)), ("dense", len(_ALL))):
        facet = _facets(client, "n", query="beta word1 word7 word14 word21 word28 word35", mode=mode)["n"]
        texts = [n for n in range(40) if n % 7 or n in {1, 7, 14, 21, 28, 35}]
        assert facet["documents"] == (len(texts) if mode == "lexical" else count)


def test_facets_of_a_vector_query_are_those_of_the_filter(client: Client) -> None:
    response = client.search(
        {
            "query_vector": vector_of("doc_1").tolist(),
            "embedding_space": PLAIN[0].id,
            "filter": {"n": {"lt": 5}},
            "facets": ["n"],
        }
    )
    facet = response.json()["facets"]["n"]
    assert (facet["documents"], facet["distinct"], facet["min"], facet["max"]) == (5, 5, 0, 4)


def test_ranges_are_counted_from_their_first_value_to_before_their_last(client: Client) -> None:
    ranges: list[dict[str, Any]] = [{"from": 0, "to": 10}, {"from": 39}, {"to": 0}, {"from": 0.5, "to": 1.5}]
    facet = _facets(client, {"field": "n", "limit": 2, "ranges": ranges})["n"]
    assert facet["ranges"] == [dict(one, count=count) for one, count in zip(ranges, (10, 1, 0, 1), strict=True)]
    assert facet["values"] == [{"value": 0, "count": 1}, {"value": 1, "count": 1}]
    assert facet["distinct"] == 40


def test_exclude_own_counts_without_the_conditions_on_the_field(client: Client) -> None:
    filter = {"even": True, "n": {"lt": 10}}
    own = _facets(client, {"field": "even", "exclude_own": True}, filter=filter)["even"]
    assert own["values"] == [{"value": False, "count": 5}, {"value": True, "count": 5}]
    assert _facets(client, "even", filter=filter)["even"]["values"] == [{"value": True, "count": 5}]
    alone = _facets(client, {"field": "even", "exclude_own": True}, filter={"even": True})["even"]
    assert alone["documents"] == len(_ALL)
    joined = {"or": [{"even": True}, {"n": 1}]}
    assert _facets(client, {"field": "even", "exclude_own": True}, filter=joined)["even"]["documents"] == 21


def test_a_field_that_no_document_has_is_missing_in_all(client: Client) -> None:
    assert _facets(client, "metadata.none")["metadata.none"] == {
        "documents": len(_ALL), "missing": len(_ALL), "distinct": 0, "values": [],
    }  # fmt: skip


def test_a_limit_above_the_maximum_is_clamped(client: Client) -> None:
    assert len(_facets(client, {"field": "document_id", "limit": 2**62})["document_id"]["values"]) == len(_ALL)


def test_every_page_counts_the_same(store: Path) -> None:
    with serving(store) as client:
        first = client.search({"query": "alpha", "top_k": 5, "facets": ["document_id"]}).json()
        cursor = first["meta"]["next_cursor"]
        second = client.search({"query": "alpha", "top_k": 5, "facets": ["document_id"], "cursor": cursor}).json()
        assert second["facets"] == first["facets"]


@pytest.mark.parametrize(
    ("member", "body"),
    [
        ("facets", {"facets": "n"}),
        ("facets[0]", {"facets": [5]}),
        ("facets", {"facets": ["n"] * 21}),
        ("facets[1]", {"facets": ["n", {"field": "n"}]}),
        ("facets[0]", {"facets": [""]}),
        ("facets[0]", {"facets": ["x" * 8_193]}),
        ("facets[0].limit", {"facets": [{"field": "n", "limit": 0}]}),
        ("facets[0].limit", {"facets": [{"field": "n", "limit": 1.5}]}),
        ("facets[0].ranges", {"facets": [{"field": "n", "ranges": [{"from": 1}] * 101}]}),
        ("facets[0].ranges[0].from", {"facets": [{"field": "n", "ranges": [{"from": True}]}]}),
        ("facets[0].ranges[0].to", {"facets": [{"field": "n", "ranges": [{"to": [1]}]}]}),
        (None, {"facets": [{"field": "n", "ranges": [{}]}]}),
        (None, {"facets": [{"field": "n", "ranges": [{"from": 2, "to": 1}]}]}),
        (None, {"facets": [{"field": "n", "ranges": [{"from": "a", "to": 1}]}]}),
        (None, {"facets": [{"field": "updated_at", "ranges": [{"from": "soon"}]}]}),
        ("highlight", {"highlight": 1}),
        ("highlight.spans", {"highlight": {"spans": 0}}),
        ("highlight.snippets", {"highlight": {"snippets": -1}}),
        ("highlight.snippet_chars", {"highlight": {"snippet_chars": "9"}}),
    ],
)
def test_what_is_malformed_is_refused_by_name(client: Client, member: str | None, body: dict[str, Any]) -> None:
    details = refused(client.search({"query": "alpha", **body}), 400, "invalid_request")
    assert details.get("member") == member


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "1e999"])
def test_ranges_take_only_numbers_of_json(client: Client, literal: str) -> None:
    content = b'{"query":"alpha","facets":[{"field":"n","ranges":[{"from":%b}]}]}' % literal.encode()
    refused(client.post(content), 400, "invalid_request")


@pytest.mark.parametrize("body", [{"facets": ["n"]}, {"highlight": True}])
def test_a_collection_that_withholds_its_text_refuses_both(client: Client, body: dict[str, Any]) -> None:
    response = client.search({"query": "alpha", "collection": "textless", **body})
    assert refused(response, 422, "unsupported_return_field") == {"field": next(iter(body))}


def test_where_every_collection_withholds_its_text_neither_is_advertised(tmp_path: Path) -> None:
    fill(tmp_path, "docs", [a_document("a", "alpha")])
    with serving(tmp_path, "[collections.docs]\nreturn_text = false") as client:
        assert not {"facets", "highlight"} & set(client.get(DISCOVERY).json()["extensions"])


# -- highlights ------------------------------------------------------------------------------------------------


def _marked(client: Client, query: str, **highlight: Any) -> dict[str, dict[str, list[str]]]:
    body = {"query": query, "highlight": highlight or True, "return": {"text": True}, "top_k": 20}
    shown = {}
    for result in client.search(body).json()["results"]:
        texts = {**result["source"], "text": result["text"], "snippets": result["text"]}
        spans = result["highlight"].items()
        shown[result["id"].partition("#")[0]] = {
            name: [texts[name][slice(*span)] for span in found] for name, found in spans
        }
    return shown


def test_words_of_the_query_are_marked_in_text_title_and_section(tmp_path: Path) -> None:
    text = "😀 Backups. Restoring a backup calls fromBytes. <b>restore</b>"
    fill(tmp_path, "docs", [a_document("a", text, title="Backup & restore", section="Restores"), a_document("b", "no")])
    with serving(tmp_path) as client:
        marked = _marked(client, "how do I restore backups of bytes?")
    assert marked["a"] == {
        "text": ["Backups", "Restoring", "backup", "fromBytes", "restore"],
        "title": ["Backup", "restore"],
        "section": ["Restores"],
        "snippets": ["Restoring a backup calls fromBytes."],
    }
    assert marked["b"] == {"text": [], "title": [], "section": [], "snippets": ["no"]}


def test_limits_of_a_highlight_hold(tmp_path: Path) -> None:
    fill(tmp_path, "docs", [a_document("a", "alpha one. " * 30)])
    with serving(tmp_path) as client:
        marked = _marked(client, "alpha", spans=3, snippets=2, snippet_chars=6)["a"]
    assert marked["text"] == ["alpha"] * 3
    assert marked["snippets"] == ["alpha"] * 2


@pytest.mark.parametrize(
    ("text", "query", "words"),
    [
        ("Şifre değişimi: 単一サインオン 😀 sso", "サインオン", ["サインオン"]),
        ("การสำรองข้อมูล ทำงานทุกคืน", "ข้อมูล", ["ข้อมูล"]),
        ("قرأت الكتاب أمس", "كتاب", ["الكتاب"]),
        ("def read_bytes(path): return path.read_bytes()", "read_bytes", ["read_bytes", "read_bytes"]),
        ("cafe\u0301 ﬁle", "café file", ["cafe\u0301", "ﬁle"]),
    ],
)
def test_spans_are_of_code_points_in_every_script(tmp_path: Path, text: str, query: str, words: list[str]) -> None:
    fill(tmp_path, "docs", [a_document("a", text)])
    with serving(tmp_path) as client:
        assert _marked(client, query)["a"]["text"] == words


def test_highlights_need_no_text_in_the_answer(client: Client) -> None:
    result = client.search({"query": "alpha", "highlight": True, "top_k": 1}).json()["results"][0]
    assert "text" not in result
    assert result["highlight"]["text"][0] == [0, 5]


def test_a_vector_has_no_words_to_mark(client: Client) -> None:
    body = {"query_vector": vector_of("doc_1").tolist(), "embedding_space": PLAIN[0].id, "highlight": True}
    assert refused(client.search(body), 400, "invalid_request") == {"member": "highlight"}


def test_a_very_long_text_is_answered(tmp_path: Path) -> None:
    fill(tmp_path, "docs", [a_document("a", "alpha " + "x" * 300_000 + " alpha")], (TEXT,))
    with serving(tmp_path) as client:
        found = client.search({"query": "alpha", "highlight": True}).json()["results"][0]["highlight"]
    assert found["text"] == [[0, 5]]
    assert found["snippets"][0][1] <= 240


@pytest.mark.parametrize("huge", [2**63, 2**64, 10**30])
def test_a_limit_of_any_size_is_one_and_clamped(client: Client, huge: int) -> None:
    body = {"query": "alpha", "facets": [{"field": "x", "limit": huge}], "highlight": {"spans": huge, "snippets": huge}}
    assert client.search(body).status_code == 200
