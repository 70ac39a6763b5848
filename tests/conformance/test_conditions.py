"""Numbers, dates and orders in words at every door: what is found, what is said of it, and how it is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients import TEXT, Client, a_document, fill, serving
from tests.support.discovery import DISCOVERY
from tests.support.laptops import documents, laptops
from tests.support.mcp_calls import message, post, result
from tests.support.recipes import ask, query, told

pytestmark = pytest.mark.needs("vocabulary", "facets")
UNDER_400 = {"words": "under 400 euros", "filter": {"price": {"lt": 400}}, "applied": True}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("store")
    fill(store, "laptops", documents("release_year"), (TEXT,))
    fill(store, "stories", [a_document("story", "a laptop was sold under the table", title="A laptop")], (TEXT,))
    return store


@pytest.fixture(scope="module")
def client(store: Path) -> Iterator[Client]:
    with serving(store, '[server]\ndefault_collection = "laptops"\n[limits]\ntop_k_max = 60\n') as shared:
        yield shared


def prices(answer: Mapping[str, Any]) -> list[int]:
    return [laptops()[one["id"].partition("#")[0]]["price"] for one in answer["results"]]


def test_aidre_filters_and_says_what_it_understood(client: Client) -> None:
    answer = client.search({"query": "a laptop under 400 euros"}).json()
    assert answer["meta"]["understood"] == {"conditions": [UNDER_400]}
    assert len(answer["results"]) == 10
    assert max(prices(answer)) < 400
    answer = client.search({"query": "a laptop under 400 euros", "operators": False, "top_k": 60}).json()
    assert "understood" not in answer["meta"]
    assert max(prices(answer)) >= 400
    assert "conditions" in client.get(DISCOVERY).json()["extensions"]["operators"]


@pytest.mark.parametrize("question", ["a laptop under 400 euros", "the newest laptop", "the cheapest under 400 euros"])
def test_pages_of_aidre_go_on_in_the_question_as_it_was_read(client: Client, question: str) -> None:
    whole = client.search({"query": question, "top_k": 60}).json()
    found, body = list[str](), {"query": question, "top_k": 7}
    while True:
        answer = client.search(body).json()
        found += [one["id"] for one in answer["results"]]
        assert answer["meta"]["understood"] == whole["meta"]["understood"]
        if "next_cursor" not in answer["meta"]:
            break
        body["cursor"] = answer["meta"]["next_cursor"]
    assert found == [one["id"] for one in whole["results"]]


def test_facets_count_what_passes_the_condition(client: Client) -> None:
    answer = client.search({"query": "a laptop under 400 euros", "facets": ["price"]}).json()
    assert answer["facets"]["price"]["max"] < 400


def test_nlweb_filters_the_collections_that_have_the_field(client: Client) -> None:
    answer = told(ask(client, query("a laptop under 400 euros", site="laptops")), "answer")
    assert answer["_meta"]["understood"] == {"conditions": [UNDER_400]}
    ids = [item["grounding"]["chunk_ids"][0].partition("#")[0] for item in answer["results"]]
    assert ids
    assert all(laptops()[one]["price"] < 400 for one in ids)
    answer = told(ask(client, query("a laptop under 400 euros", site=["laptops", "stories"])), "answer")
    assert answer["_meta"]["understood"] == {"conditions": [UNDER_400]}
    refused = {**query("a laptop under 400 euros", site="laptops"), "prefer": {"operators": False}}
    assert "understood" not in told(ask(client, refused), "answer")["_meta"]


def test_nlweb_answers_the_newest_in_order(client: Client) -> None:
    answer = told(ask(client, query("the newest laptop", site="laptops")), "answer")
    ids = [item["grounding"]["chunk_ids"][0].partition("#")[0] for item in answer["results"]]
    years = [laptops()[one]["release_year"] for one in ids]
    assert years == sorted(years, reverse=True)
    assert years[0] == 2025


def test_nlweb_drops_a_condition_that_leaves_nothing(client: Client) -> None:
    answer = told(ask(client, query("a laptop under 5 euros", site="laptops")), "answer")
    [condition] = answer["_meta"]["understood"]["conditions"]
    assert (condition["applied"], condition["note"]) == (False, "nothing fits it")
    assert answer["results"]


def test_the_tools_of_mcp_say_what_was_understood(client: Client) -> None:
    question = "a laptop under 400 euros"
    for name, arguments in (("search", {"query": question}), ("ask", query(question))):
        answer = result(post(client, message("tools/call", {"name": name, "arguments": arguments})))
        said = answer["structuredContent"]
        assert (said if name == "search" else said["_meta"])["understood"] == {"conditions": [UNDER_400]}
