"""Quotes and `-word` over HTTP: what is found, what the answer says of it, and where they are not read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.clients import TEXT, Client, a_document, fill, serving
from tests.support.discovery import DISCOVERY

pytestmark = pytest.mark.needs("words", "lexical")
TEXTS = {
    "news": "the dog bites the man at noon",
    "jumble": "the man bites the dog at noon",
    "moas": "moas are extinct birds",
    "kiwis": "kiwis are birds at noon",
    "many": "birds, birds and birds: dog and man",
}
CONFIGURATION = """
[server]
default_collection = "docs"
[collections.textless]
return_text = false
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    store = tmp_path_factory.mktemp("store")
    for name in ("docs", "textless"):
        fill(store, name, [a_document(one, text, title=None) for one, text in TEXTS.items()], (TEXT,))
    with serving(store, CONFIGURATION) as shared:
        yield shared


def asked(client: Client, query: str, **body: Any) -> dict[str, Any]:
    response = client.search({"query": query, **body})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def ids(answer: dict[str, Any]) -> list[str]:
    return [one["id"].partition("#")[0] for one in answer["results"]]


@pytest.mark.parametrize("mode", ["lexical", "dense", "hybrid"])
def test_a_phrase_in_quotes_stands_in_every_result(client: Client, mode: str) -> None:
    answer = asked(client, '"dog bites the man"', mode=mode)
    assert ids(answer) == ["news"]
    assert answer["meta"]["understood"] == {"phrases": ["dog bites the man"]}
    assert "corrected" not in answer["meta"]


@pytest.mark.parametrize("mode", ["lexical", "dense", "hybrid"])
def test_an_excluded_word_is_in_none(client: Client, mode: str) -> None:
    answer = asked(client, "birds -extinct", mode=mode)
    assert "moas" not in ids(answer)
    assert {"kiwis", "many"} <= {*ids(answer)}
    assert answer["meta"]["understood"] == {"excluded": ["extinct"]}
    assert set(ids(asked(client, "birds at noon -dog", mode=mode))) <= {"kiwis", "moas"}


def test_a_phrase_that_stands_nowhere_is_searched_without_quotes(client: Client) -> None:
    answer = asked(client, '"extinct birds noon" -kiwis')
    assert ids(answer)
    assert "kiwis" not in ids(answer)
    assert answer["meta"]["corrected"] == "extinct birds noon"
    assert answer["meta"]["understood"] == {"phrases": ["extinct birds noon"], "excluded": ["kiwis"]}


def test_operators_false_reads_none(client: Client) -> None:
    answer = asked(client, 'birds -extinct "dog bites the man"', mode="lexical", operators=False)
    assert {"moas", "news", "jumble"} <= {*ids(answer)}
    assert "understood" not in answer["meta"]


def test_a_question_without_operators_says_nothing_of_them(client: Client) -> None:
    assert "understood" not in asked(client, "dog bites man")["meta"]


def test_where_no_text_is_returned_none_are_read(client: Client) -> None:
    """A phrase would tell what a text says."""
    answer = asked(client, '"dog bites the man"', mode="lexical", collection="textless")
    assert set(ids(answer)) >= {"news", "jumble"}
    assert "understood" not in answer["meta"]


def test_pages_go_on_in_the_question_as_it_was_read(client: Client) -> None:
    for query in ("birds -extinct", '"at noon"', '"noon at birds"'):
        whole = ids(asked(client, query, top_k=10))
        found, body = list[str](), {"top_k": 1}
        while True:
            answer = asked(client, query, **body)
            found += ids(answer)
            if "next_cursor" not in answer["meta"]:
                break
            body["cursor"] = answer["meta"]["next_cursor"]
        assert found == whole, query
    cursor = asked(client, "birds -extinct", top_k=1)["meta"]["next_cursor"]
    response = client.search({"query": "birds", "top_k": 1, "cursor": cursor})
    assert response.status_code == 400


def test_facets_and_filters_hold_beside_them(client: Client) -> None:
    answer = asked(client, "birds -extinct", mode="lexical", facets=["document_id"], filter={"document_id": "kiwis"})
    assert ids(answer) == ["kiwis"]
    values = [one["value"] for one in answer["facets"]["document_id"]["values"]]
    assert values == ["kiwis"]


def test_discovery_says_what_is_read(client: Client) -> None:
    document = client.get(DISCOVERY).json()
    assert document["extensions"]["operators"] == ["phrase", "exclude", "conditions"]
    assert "operators: false" in document["behaviour"]["operators"]
