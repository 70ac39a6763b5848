"""Typing errors over HTTP: what is answered instead, what is offered, what is refused; and completions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.clients import TEXT, Client, a_document, fill, serving
from tests.support.discovery import DISCOVERY, refused

pytestmark = pytest.mark.needs("words", "lexical")
PATH = "/collections/docs/suggest"
TEXTS = {
    "wombats": "wombats dig burrows",
    "kiwis": "kiwis sleep in burrows",
    "moas": "moas are extinct",
    "wallabies": "wallabies hop about",
}
CONFIGURATION = """
[server]
default_collection = "docs"
[limits]
query_chars = 100
[collections.textless]
return_text = false
[collections.wordless]
lexical = false
[collections.hidden]
visibility = "private"
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    store = tmp_path_factory.mktemp("store")
    for name in ("docs", "textless", "wordless", "hidden"):
        fill(store, name, [a_document(one, text) for one, text in TEXTS.items()])
    with serving(store, CONFIGURATION) as shared:
        yield shared


def asked(client: Client, query: str, **body: Any) -> dict[str, Any]:
    response = client.search({"query": query, **body})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def told(answer: dict[str, Any]) -> dict[str, str]:
    return {name: answer["meta"][name] for name in ("corrected", "suggestion") if name in answer["meta"]}


def test_what_finds_nothing_as_typed_is_answered_repaired(client: Client) -> None:
    answer = asked(client, "womabts", mode="lexical")
    assert told(answer) == {"corrected": "wombats"}
    assert answer["results"] == asked(client, "wombats", mode="lexical")["results"]
    assert [hit["id"] for hit in answer["results"]] == ["wombats#chunk_1"]


def test_facets_and_highlights_are_those_of_the_corrected_text(client: Client) -> None:
    answer = asked(client, "womabts", mode="lexical", facets=["document_id"], highlight=True)
    assert answer["results"][0]["highlight"]["text"] == [[0, 7]]
    assert answer["facets"]["document_id"]["documents"] == 1


def test_what_finds_something_stays_and_the_repaired_text_is_offered(client: Client) -> None:
    answer = asked(client, "wombats in burrows mosa", mode="lexical")
    assert told(answer) == {"suggestion": "wombats in burrows moas"}
    assert answer["results"] == asked(client, "wombats in burrows mosa", mode="lexical", correct=False)["results"]


def test_what_finds_one_of_two_words_alone_is_answered_repaired(client: Client) -> None:
    assert told(asked(client, "womabts in burrows", mode="lexical")) == {"corrected": "wombats in burrows"}


def test_the_request_may_refuse_both(client: Client) -> None:
    for query in ("womabts", "womabts in burrows"):
        assert told(asked(client, query, mode="lexical", correct=False)) == {}
    assert asked(client, "womabts", mode="lexical", correct=False)["results"] == []
    assert told(asked(client, "womabts", mode="lexical", correct=None)) == {"corrected": "wombats"}
    assert refused(client.search({"query": "x", "correct": "no"}), 400, "invalid_request") == {"member": "correct"}


def test_a_question_of_known_words_is_searched_once_and_told_nothing(client: Client) -> None:
    for mode in ("hybrid", "dense", "lexical"):
        assert told(asked(client, "wombats in burrows", mode=mode)) == {}


def test_what_no_repair_finds_either_is_not_offered(client: Client) -> None:
    nowhere = {"kind": "absent"}
    assert told(asked(client, "womabts", mode="lexical", filter=nowhere)) == {}
    assert told(asked(client, "xyzzyqq")) == {}


def test_scores_without_a_calibrated_bound_decide_nothing(client: Client) -> None:
    """The space of the tests is not the one for which relevance is calibrated."""
    assert told(asked(client, "womabts")) == {"suggestion": "wombats"}


def test_pages_of_a_corrected_search_go_on_with_the_query_as_typed_or_corrected(client: Client) -> None:
    first = asked(client, "burrwos", mode="lexical", top_k=1)
    assert told(first) == {"corrected": "burrows"}
    cursor = first["meta"]["next_cursor"]
    for query in ("burrwos", "burrows"):
        page = asked(client, query, mode="lexical", top_k=1, cursor=cursor)
        found = {hit["id"] for hit in (*first["results"], *page["results"])}
        assert found == {"wombats#chunk_1", "kiwis#chunk_1"}
    assert told(asked(client, "burrwos", mode="lexical", top_k=1, cursor=cursor)) == {"corrected": "burrows"}
    other = {"query": "womabts", "mode": "lexical", "cursor": cursor}
    assert refused(client.search(other), 400, "invalid_request") == {"member": "cursor"}


def test_pages_of_a_search_as_typed_offer_what_the_first_one_offers(client: Client) -> None:
    typed = "wombats in burrows mosa"
    first = asked(client, typed, mode="lexical", top_k=1)
    assert told(first) == {"suggestion": "wombats in burrows moas"}
    later = asked(client, typed, mode="lexical", top_k=1, cursor=first["meta"]["next_cursor"])
    assert told(later) == told(first)


def test_collections_that_withhold_their_words_tell_none(client: Client) -> None:
    for name in ("textless", "wordless"):
        assert told(asked(client, "womabts", collection=name)) == {}
    assert told(asked(client, "womabts", collection="textless", mode="lexical")) == {}
    assert asked(client, "womabts", collection="textless", mode="lexical")["results"] == []


def test_the_budget_is_charged_for_what_is_answered_alone(tmp_path: Path) -> None:
    fill(tmp_path, "docs", [a_document(one, text) for one, text in TEXTS.items()])
    with serving(tmp_path, "[limits]\nchunks_per_day = 2") as client:
        assert told(asked(client, "wombats burrows kiwsi", mode="lexical")) == {"suggestion": "wombats burrows kiwis"}
        refused(client.search({"query": "moas", "mode": "lexical"}), 429, "rate_limited")


@pytest.mark.parametrize(
    "query",
    ["\u0301" * 50, "東京の塔" * 20, ".*+?(){}[]^$|\\", "a" * 100, "ab" * 50, "नमस्ते", "😀" * 30, "x" + "\u0000", "İİİ"],
)
def test_hostile_queries_are_answered_as_they_are(client: Client, query: str) -> None:
    assert told(asked(client, query, mode="lexical")) == {}
    assert completions(client, query) == []


# -- completions ---------------------------------------------------------------------------------------------------


def completions(client: Client, typed: str, more: str = "") -> list[str]:
    response = client.get(f"{PATH}?q={quote(typed)}{more}")
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    assert set(body) == {"collection", "suggestions", "request_id"}
    assert body["collection"] == "docs"
    suggestions: list[str] = body["suggestions"]
    return suggestions


def test_the_last_word_is_completed(client: Client) -> None:
    assert completions(client, "where do w") == ["where do wallabies", "where do wombats"]
    assert completions(client, "w", "&limit=1") == ["wallabies"]
    assert completions(client, "W", "&limit=999") == ["Wallabies", "Wombats"]
    for nothing in ("", " ", "wombats ", "wombats", "zz"):
        assert completions(client, nothing) == []


def test_completions_are_conditional_and_come_in_both_types(client: Client) -> None:
    response = client.get(f"{PATH}?q=w")
    assert response.headers["cache-control"] == "no-cache"
    etag = response.headers["etag"]
    assert client.get(f"{PATH}?q=w", {"if-none-match": etag}).status_code == 304
    assert client.get(f"{PATH}?q=b", {"if-none-match": etag}).status_code == 200
    typed = client.get(f"{PATH}?q=w", {"accept": "application/aidre+json"})
    assert typed.headers["content-type"] == "application/aidre+json"
    assert client.request("HEAD", f"{PATH}?q=w").headers["etag"] == etag
    assert client.request("POST", PATH).status_code == 405


def test_what_cannot_be_completed_is_refused(client: Client) -> None:
    assert refused(client.get(PATH), 400, "invalid_request") == {"missing": ["q"]}
    assert refused(client.get(f"{PATH}?q={'x' * 101}"), 400, "invalid_request") == {"member": "q"}
    for limit in ("0", "-1", "x", "1.5", ""):
        assert refused(client.get(f"{PATH}?q=x&limit={limit}"), 400, "invalid_request") == {"member": "limit"}


def test_collections_that_withhold_their_words_complete_none(client: Client) -> None:
    refused(client.get("/collections/textless/suggest?q=w"), 403, "forbidden")
    refused(client.get("/collections/wordless/suggest?q=w"), 404, "not_found")
    hidden = client.get("/collections/hidden/suggest?q=w")
    absent = client.get("/collections/absent/suggest?q=w")
    assert hidden.status_code == absent.status_code == 404
    assert hidden.json()["error"] == absent.json()["error"]


def test_discovery_says_where_texts_are_completed(client: Client, tmp_path: Path) -> None:
    document = client.get(DISCOVERY).json()
    assert document["endpoints"]["suggest"].endswith("/collections/{name}/suggest")
    assert document["extensions"]["correct"] is True
    assert (document["extensions"]["suggest"], document["limits"]["suggestions"]) == ({"default": 8}, 50)
    fill(tmp_path, "textless", [a_document("a", "alpha")], (TEXT,))
    with serving(tmp_path, "[collections.textless]\nreturn_text = false") as silent:
        document = silent.get(DISCOVERY).json()
        assert "suggest" not in document["endpoints"]
        assert document["extensions"].keys().isdisjoint({"correct", "suggest"})
