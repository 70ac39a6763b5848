"""A collection that returns no text returns none inside of objects either, and answers no filter about it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients import TEXT, Client, a_document, fill, serving

SECRET = "SENTINEL of the body"
COMMENT = {"@type": "Comment", "author": "Ada", "context": "kept"}
OBJECT = {
    "@type": "Article",
    "name": "On tea",
    "articleBody": "tea is steeped",
    "schema:transcript": SECRET,
    "description": "How it is made.",
    "hasPart": [{**COMMENT, "https://schema.org/text": SECRET}],
}
RECIPE = {
    "@type": "Recipe",
    "name": "Tea",
    "description": "tea is cooked",
    "recipeIngredient": ["a leaf"],
    "tool": "pot",
}
PAGE = {
    "@type": "Article",
    "name": "Page",
    "author": "Ada",
    "description": "the text of a page",
    "tool": "tea is on it",
}
BROUGHT = {"text": "tea is drunk", "odd": "words from elsewhere"}
CONFIGURATION = "[collections.quiet]\nreturn_text = false\n"
CHUNK = "d%23chunk_1"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    path = tmp_path_factory.mktemp("store")
    documents = [
        a_document("d", "tea is steeped", type="Article", semantic_payload=OBJECT, schema_object=OBJECT),
        a_document("e", "tea is poured", metadata={"text": "green", "transcript": {"by": "Ada"}, "name": "e"}),
        a_document("f", "tea is drunk", metadata={"name": "f"}, semantic_payload=BROUGHT),
        a_document("r", "tea is cooked\n\na leaf", type="Recipe", semantic_payload=RECIPE, schema_object=RECIPE),
        a_document("p", "tea is on it", type="Article", semantic_payload=PAGE, schema_object=PAGE),
    ]
    for name in ("quiet", "open"):
        fill(path, name, documents, (TEXT,))
    with serving(path, CONFIGURATION) as client:
        yield client


def asked(client: Client, collection: str, **members: Any) -> Any:
    return client.search({"collection": collection, "query": "tea", **members})


def test_no_payload_carries_a_text_out(client: Client) -> None:
    only = {"filter": {"document_id": "d"}, "return": {"semantic_payload": True}}
    [hit] = asked(client, "quiet", **only).json()["results"]
    chunk = client.get(f"/chunks/{CHUNK}?collection=quiet")
    for payload in (hit["semantic_payload"], chunk.json()["semantic_payload"]):
        assert payload == {
            "@type": "Article",
            "name": "On tea",
            "description": "How it is made.",
            "hasPart": [COMMENT],
        }
    assert SECRET not in chunk.text
    [hit] = asked(client, "open", **only).json()["results"]
    assert hit["semantic_payload"] == OBJECT


@pytest.mark.parametrize(
    ("document", "shown"),
    [
        ("r", {"@type": "Recipe", "name": "Tea", "tool": "pot"}),
        ("p", {"@type": "Article", "name": "Page", "author": "Ada"}),
        ("f", None),
    ],
)
def test_a_payload_is_shown_without_what_the_text_was_made_of_or_may_have_been(
    client: Client, document: str, shown: Any
) -> None:
    path = f"/chunks/{document}%23chunk_1?collection="
    expected = {} if shown is None else {"semantic_payload": shown}
    browsed = client.get(f"/collections/quiet/browse/{document}").json()["document"]
    for answer in (client.get(path + "quiet").json(), browsed):
        assert {name: answer[name] for name in answer if name == "semantic_payload"} == expected
    assert client.get(path + "open").json()["semantic_payload"] == {"r": RECIPE, "p": PAGE, "f": BROUGHT}[document]


@pytest.mark.parametrize("collection", ["quiet", "open"])
def test_a_document_without_a_payload_has_none(client: Client, collection: str) -> None:
    answer = client.get(f"/chunks/e%23chunk_1?collection={collection}")
    assert answer.status_code == 200 and "semantic_payload" not in answer.json()


@pytest.mark.parametrize("format", ["conversational_search", "chatgpt_app"])
@pytest.mark.parametrize("mode", ["list", "summarize"])
def test_an_item_of_nlweb_its_prose_and_its_actions_are_made_of_what_is_shown(
    client: Client, mode: str, format: str
) -> None:
    prefer = {"mode": mode, "response_format": format}
    for site, are_shown in (("quiet", False), ("open", True)):
        body = {"query": {"text": "tea", "site": site, "limit": 5}, "prefer": prefer}
        answer = client.request("POST", "/ask", json=body, headers={"content-type": "application/json"})
        assert answer.status_code == 200 and "On tea" in answer.text
        shown = [words in answer.text for words in ("tea is cooked", '["a leaf"]', "the text of a page")]
        assert any(shown) is are_shown
        if mode == "list" and format == "conversational_search":
            assert shown == [are_shown] * 3
        elif mode == "list":
            assert ("Tea: tea is cooked" in answer.json()["content"][-1]["text"]) is are_shown


def test_an_attribute_of_nlweb_never_selects_a_text_that_stays(client: Client) -> None:
    for site, is_ignored in (("quiet", True), ("open", False)):
        query = {"text": "tea", "site": site, "ingredients": "a leaf"}
        answer = client.request("POST", "/ask", json={"query": query}, headers={"content-type": "application/json"})
        assert answer.status_code == 200
        assert (answer.json()["_meta"].get("ignored_filters") == ["ingredients"]) is is_ignored


def test_members_that_a_mapping_takes_text_from_are_text(tmp_path: Path) -> None:
    item = {"@type": "Product", "name": "Pot", "description": "Pottery tea", "color": "red", "tool": "of the shape"}
    item["brand"] = "Pottery"
    document = a_document("m", "Pottery tea", schema_object=item, semantic_payload=item)
    fill(tmp_path / "store", "quiet", [document], (TEXT,))
    mapping = '[collections.quiet.mapping]\ntext = ["brand", "shape"]\n'
    with serving(tmp_path / "store", CONFIGURATION + mapping) as client:
        shown = client.get("/chunks/m%23chunk_1").json()["semantic_payload"]
        assert shown == {"@type": "Product", "name": "Pot", "color": "red"}
        assert asked(client, "quiet", filter={"brand": {"contains": "P"}}).status_code == 400
        assert asked(client, "quiet", filter={"color": "red"}).status_code == 200


@pytest.mark.parametrize(
    "filter",
    [
        {"articleBody": {"gte": "S"}},
        {"schema:transcript": {"eq": "S"}},
        {"not": {"hasPart.https://schema.org/text": {"exists": True}}},
        {"description": {"contains": "cooked"}},
        {"recipeIngredient": "a leaf"},
    ],
)
def test_no_filter_asks_about_a_text_that_stays(client: Client, filter: Any) -> None:
    answer = asked(client, "quiet", filter=filter)
    assert answer.status_code == 400
    assert answer.json()["error"] == "invalid_request"
    assert "is a text, which this collection does not return" in answer.json()["message"]
    assert asked(client, "open", filter=filter).status_code == 200


@pytest.mark.parametrize("op", ["contains", "gt", "gte", "lt", "lte"])
def test_no_filter_looks_for_words_in_a_member_that_may_repeat_a_text(client: Client, op: str) -> None:
    for filter in ({"tool": {op: "tea is"}}, {"not": {"or": [{"type": "Book"}, {"tool": {op: "tea is"}}]}}):
        answer = asked(client, "quiet", filter=filter)
        assert answer.status_code == 400
        assert f"filter.tool.{op} may tell a text" in answer.json()["message"]
        assert asked(client, "open", filter=filter).status_code == 200


def test_whole_values_labels_and_numbers_can_be_asked_about_where_texts_stay(client: Client) -> None:
    [hit] = asked(client, "quiet", filter={"tool": "pot"}).json()["results"]
    assert hit["id"] == "r#chunk_1"
    for filter in ({"author": {"contains": "d"}}, {"name": {"gte": "Pa"}}, {"tool": {"gte": "2024-01-01"}}):
        assert asked(client, "quiet", filter=filter).status_code == 200


@pytest.mark.parametrize("name", ["metadata.text", "text", "transcript.by", "metadata.transcript.by"])
def test_metadata_that_leave_with_every_answer_can_be_asked_about_whatever_they_are_called(
    client: Client, name: str
) -> None:
    value = {"gte": "A", "lt": "z"}
    [hit] = asked(client, "quiet", filter={name: value}).json()["results"]
    assert hit["id"] == "e#chunk_1" and hit["metadata"]["text"] == "green"
    hits = asked(client, "quiet", filter={"not": {name: value}}).json()["results"]
    assert sorted(each["id"][0] for each in hits) == ["d", "f", "p", "r"]


def test_of_a_name_that_metadata_and_an_object_have_neither_can_be_asked_about(tmp_path: Path) -> None:
    other = {"@type": "Comment", "text": SECRET}
    documents = [
        a_document("e", "tea is poured", metadata={"text": "green"}),
        a_document("d", "tea is steeped", schema_object=other),
    ]
    fill(tmp_path / "store", "quiet", documents, (TEXT,))
    with serving(tmp_path / "store", CONFIGURATION) as client:
        answer = asked(client, "quiet", filter={"metadata.text": {"gte": "S"}})
        assert answer.status_code == 400 and "text is a text" in answer.json()["message"]
