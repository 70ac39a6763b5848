"""Typing errors in NLWeb: what is answered instead, what is offered in `_meta` and in prose, what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.clients import TEXT, Client, a_document, fill, serving
from tests.support.recipes import CHATGPT, ask, preferring, query, told

CONFIGURATION = """
[collections.textless]
return_text = false
protocols = ["aidre", "nlweb"]
"""


@pytest.fixture(scope="module")
def animals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Two collections without a model, which are searched by words, and one that withholds its words."""
    store = tmp_path_factory.mktemp("store")
    fill(store, "animals", [a_document(one, f"{one} in burrows") for one in ("wombats", "kiwis")], ())
    fill(store, "plants", [a_document("fernzz", "womabts is a fern of plants")], ())
    fill(store, "textless", [a_document("quiet", "quokkas")], (TEXT,))
    with serving(store, CONFIGURATION) as client:
        yield client


def meta_of(
    client: Client, text: str, site: str | list[str] = "animals", **members: Any
) -> tuple[dict[str, Any], list[str]]:
    answer = told(ask(client, {**query(text, site=site), **members}), "answer")
    meta = {name: answer["_meta"][name] for name in ("corrected", "suggestion") if name in answer["_meta"]}
    return meta, [item["grounding"]["chunk_ids"][0] for item in answer["results"]]


def test_what_finds_nothing_as_typed_is_answered_repaired(animals: Client) -> None:
    assert meta_of(animals, "womabts") == ({"corrected": "wombats"}, ["wombats#chunk_1"])


def test_what_finds_something_stays_and_the_repaired_text_is_offered(animals: Client) -> None:
    meta, found = meta_of(animals, "wombats burrows kiwsi")
    assert meta == {"suggestion": "wombats burrows kiwis"}
    assert found == meta_of(animals, "wombats burrows kiwsi", prefer={"correct": False})[1]
    assert meta_of(animals, "wombats burrows")[0] == {}


def test_the_request_may_refuse_both(animals: Client) -> None:
    assert meta_of(animals, "wombats burrows kiwsi", prefer={"correct": False})[0] == {}
    failure = told(ask(animals, {**query("womabts", site="animals"), "prefer": {"correct": False}}), "failure")
    assert failure["error"]["code"] == "NO_RESULTS"
    assert animals.get("/ask?query=womabts&site=animals&correct=false").json()["error"]["code"] == "NO_RESULTS"


def test_a_word_that_another_collection_knows_is_no_error(animals: Client) -> None:
    meta, found = meta_of(animals, "womabts", site=["animals", "plants"])
    assert (meta, found) == ({}, ["fernzz#chunk_1"])


def test_prose_says_it_in_words(animals: Client) -> None:
    def prose(text: str) -> str:
        body = {**preferring(**CHATGPT), **query(text, site="animals")}
        content = told(ask(animals, body), "answer")["content"]
        return "\n".join(part["text"] for part in content)

    said = "Did you mean “wombats burrows kiwis”?\n1 result for “wombats burrows kiwsi”:"
    assert prose("wombats burrows kiwsi").startswith(said)
    assert prose("womabts").startswith("Nothing fits “womabts” as well.\n1 result for “wombats”:")


def test_a_stream_says_it_in_its_meta(animals: Client) -> None:
    body = {**query("womabts", site="animals"), "prefer": {"streaming": True}}
    response = animals.request("POST", "/ask", json=body)
    assert '"corrected":"wombats"' in response.text


def test_a_collection_that_withholds_its_words_tells_none(animals: Client) -> None:
    response = ask(animals, query("quokkaz", site="textless"))
    assert "quokkas" not in response.text.replace("quiet", "")
    assert {"corrected", "suggestion"}.isdisjoint(response.json()["_meta"])


def test_the_mcp_tool_search_says_what_it_answered(animals: Client) -> None:
    called = animals.request(
        "POST",
        "/mcp",
        json={
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "search", "arguments": {"query": {"text": "womabts", "site": "animals"}}},
        },
        headers={"accept": "application/json, text/event-stream"},
    )
    content = called.json()["result"]["structuredContent"]
    assert content["corrected"] == "wombats"
    assert [one["id"] for one in content["results"]] == ["animals:wombats"]
