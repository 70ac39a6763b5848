"""`api/protocols/aidre/browsing.py` and `profile.py`: what a collection holds, its documents, and their chunks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from aidre.engine.model import Chunk, Document, Record
from tests.support.clients import TEXT, Client, a_document, delete, fill, serving
from tests.support.engines import chosen_source

SECRET = "the-secret"
CONFIGURATION = f"""
[collections.withheld]
return_text = false
[[keys]]
name = "partner"
sha256 = "{hashlib.sha256(SECRET.encode()).hexdigest()}"
collections = ["archive"]
[[keys]]
name = "writer"
sha256 = "{hashlib.sha256(b"writing").hexdigest()}"
scopes = ["write"]
"""
BEARING = {"authorization": f"Bearer {SECRET}"}
PARTS = ("One.", "Two.", "Three.", "Four.", "Five.")


def a_product(number: int) -> Document:
    metadata: dict[str, Any] = {
        "colour": ["red", "blue", "green"][number % 3],
        "serial": f"serial-{number}",
        "price": number * 1.5,
        "always": "same",
        "articleBody": "red" if number % 2 else "blue",
    }
    return a_document(f"d{number}", f"alpha {number}", url=f"https://example.com/{number}", metadata=metadata)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    store = tmp_path_factory.mktemp("store")
    fill(store, "docs", [a_product(number) for number in range(12)])
    delete(store, "docs", ["d3"])
    fill(store, "withheld", [a_product(number) for number in range(12)])
    fill(store, "archive", [a_document("secret", "gamma", title="SECRET")], (TEXT,), "private")
    with chosen_source(store).writer("long", spaces=[]) as writer:
        document = a_document("a/long one", "\n\n".join(PARTS), title="Long")
        chunks = tuple(
            Chunk(f"{document.id}#chunk_{number}", number, text, document.text.index(text), 0, f"Part {number}")
            for number, text in enumerate(PARTS, 1)
        )
        writer.upsert([Record(document, chunks, b"x" * 16)], {}, {})
        writer.commit()
    with serving(store, CONFIGURATION) as shared:
        yield shared


def test_documents_are_listed_page_by_page(client: Client) -> None:
    seen: list[str] = []
    offset: int | None = 0
    while offset is not None:
        page = client.get(f"/collections/docs/browse?limit=4&offset={offset}").json()
        seen += [one["id"] for one in page["documents"]]
        offset = page.get("next")
    assert sorted(seen) == sorted(f"d{number}" for number in range(12) if number != 3)
    assert page["document_count"] == 11
    first = page["documents"][0]
    assert first["chunk_count"] == 1 and first["url"].startswith("https://example.com/")


def test_a_document_comes_with_its_chunks_in_order(client: Client) -> None:
    path = f"/collections/long/browse/{quote('a/long one', safe='')}"
    answer = client.get(path).json()
    assert [one["text"] for one in answer["chunks"]] == list(PARTS)
    assert [one["section"] for one in answer["chunks"]] == [f"Part {number}" for number in range(1, 6)]
    assert answer["document"]["title"] == "Long" and answer["document"]["chunk_count"] == 5 and "next" not in answer
    pages = [client.get(f"{path}?limit=2&offset={offset}").json() for offset in (0, 2, 4)]
    assert [one["text"] for page in pages for one in page["chunks"]] == list(PARTS)
    assert [page.get("next") for page in pages] == [2, 4, None]


def test_what_is_not_there_is_not_found(client: Client) -> None:
    for path in ("docs/browse/absent", "docs/browse/d3", "absent/browse", "absent/browse/d1", "absent/profile"):
        assert client.get(f"/collections/{path}").status_code == 404


def test_what_a_caller_may_not_see_is_not_there(client: Client) -> None:
    for path in ("browse", "browse/secret", "profile"):
        assert client.get(f"/collections/archive/{path}").status_code == 404
        assert client.get(f"/collections/archive/{path}", BEARING).status_code == 200
        assert client.get(f"/collections/docs/{path}", {"authorization": "Bearer writing"}).status_code == 403


def test_a_collection_that_withholds_its_text_tells_none_of_it(client: Client) -> None:
    answer = client.get("/collections/withheld/browse/d1").json()
    assert "text" not in answer["chunks"][0]
    profile = client.get("/collections/withheld/profile").json()
    assert not {"facets", "sites"} & profile.keys()
    assert profile["documents"] == 12


@pytest.mark.parametrize("query", ["limit=0", "limit=x", "offset=-1", "offset=10001", "offset=x"])
def test_a_bad_page_is_refused(client: Client, query: str) -> None:
    refused = client.get(f"/collections/docs/browse?{query}")
    assert refused.status_code == 400 and query.partition("=")[0] in refused.json()["message"]


@pytest.mark.needs("facets", "vocabulary")
def test_fields_are_offered_that_leave_a_choice(client: Client) -> None:
    facets = {one["field"]: one for one in client.get("/collections/docs/profile").json()["facets"]}
    assert facets["colour"] == {"field": "colour", "kind": "value", "documents": 11, "distinct": 3}
    assert facets["price"]["kind"] == "number"
    assert not {"serial", "always", "articleBody", "site"} & facets.keys()


@pytest.mark.needs("facets", "vocabulary")
def test_fields_that_nobody_filters_by_are_not_offered(tmp_path: Path) -> None:
    def note(number: int) -> Document:
        builders: dict[str, Any] = {
            "layout": ["page", "post"][number % 2],
            "cssClasses": ["wide", "soft"][: number % 3],
            "sidebar_position": number,
            "weight": 10 * number,
            "page-layout": ["full", "article"][number % 2],
            "offers": {"url": ["https://example.com/a", "https://example.com/b"][number % 2], "price": number},
            **({"mobile": number == 0} if number < 3 else {}),
        }
        people = {"level": ["beginner", "expert"][number % 2], "stocked": number % 3 == 0}
        return a_document(f"n{number}", f"note {number}", metadata=builders | people)

    fill(tmp_path, "notes", [note(number) for number in range(12)])
    with serving(tmp_path) as client:
        facets = client.get("/collections/notes/profile").json()["facets"]
    assert {one["field"] for one in facets} == {"level", "stocked", "offers.price"}


def test_a_profile_says_what_there_is(client: Client) -> None:
    profile = client.get("/collections/docs/profile").json()
    assert (profile["documents"], profile["chunks"]) == (11, 11)
    [space] = profile["spaces"]
    assert space["id"] == TEXT.id and space["dimensions"] == 64
    assert sum(profile["languages"].values()) <= 12


def test_a_copy_that_is_current_is_confirmed(client: Client) -> None:
    for path in ("profile", "browse", "browse/d1"):
        tag = client.get(f"/collections/docs/{path}").headers["etag"]
        assert client.get(f"/collections/docs/{path}", {"if-none-match": tag}).status_code == 304


def test_chunks_of_a_document_are_charged(tmp_path: Path) -> None:
    fill(tmp_path, "docs", [a_document(f"d{number}", f"alpha {number}") for number in range(4)])
    with serving(tmp_path, "[limits]\nchunks_per_day = 2") as limited:
        answers = [limited.get(f"/collections/docs/browse/d{number}").status_code for number in range(4)]
        assert answers == [200, 200, 429, 429]
        assert limited.get("/collections/docs/browse").status_code == 429


def test_discovery_advertises_them(client: Client) -> None:
    about = client.get("/.well-known/ai-discovery").json()
    assert about["endpoints"]["profile"].endswith("/collections/{name}/profile")
    assert about["endpoints"]["browse"].endswith("/collections/{name}/browse")
    assert about["extensions"]["browse"]["offset_max"] == 10_000


@pytest.mark.parametrize("offset", [0, 1, 1_000_000])
def test_a_payload_costs_a_chunk_on_whatever_page_it_is_sent(tmp_path: Path, offset: int) -> None:
    item = {"@type": "Article", "articleBody": "alpha"}
    documents = [a_document(f"d{number}", "alpha", schema_object=item, semantic_payload=item) for number in range(4)]
    fill(tmp_path, "docs", documents)
    with serving(tmp_path, "[limits]\nchunks_per_day = 2") as limited:
        answers = [limited.get(f"/collections/docs/browse/d{number}?offset={offset}") for number in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
        assert answers[0].json()["document"]["semantic_payload"] == item


@pytest.mark.needs("facets", "vocabulary")
@pytest.mark.parametrize("limits", ["", "[limits]\nchunks_per_day = 100"])
def test_a_field_of_texts_is_offered_where_no_chunks_are_counted(tmp_path: Path, limits: str) -> None:
    items = [
        {"@type": "Recipe", "recipeIngredient": [food], "brand": brand} for food, brand in (("egg", "x"), ("leek", "y"))
    ]
    documents = [a_document(f"d{number}", "alpha", schema_object=items[number % 2]) for number in range(8)]
    fill(tmp_path, "docs", documents)
    with serving(tmp_path, limits) as client:
        offered = {one["field"] for one in client.get("/collections/docs/profile").json()["facets"]}
        assert "brand" in offered and ("recipeIngredient" in offered) is not bool(limits)
        facets = client.search({"query": "alpha", "facets": ["brand", "recipeIngredient"]})
        assert facets.status_code == (422 if limits else 200)
        if limits:
            assert "facets[1] names recipeIngredient, a text" in facets.json()["message"]
            assert client.search({"query": "alpha", "facets": ["brand"]}).status_code == 200


@pytest.mark.needs("words")
def test_no_word_is_completed_once_the_budget_is_spent(tmp_path: Path) -> None:
    fill(tmp_path, "docs", [a_document("d", "alphabet")])
    with serving(tmp_path, "[limits]\nchunks_per_day = 1") as limited:
        suggest = "/collections/docs/suggest?q=alph"
        assert limited.get(suggest).json()["suggestions"] == ["alphabet"]
        assert limited.get("/collections/docs/browse/d").status_code == 200
        assert limited.get(suggest).status_code == 429
