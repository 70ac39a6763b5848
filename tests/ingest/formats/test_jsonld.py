"""JSON-LD graphs: links by @id, which nodes are documents, which object a page is about, and bounds."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from aidre.engine.errors import InvalidDocument
from aidre.ingest.formats.jsonld import find_documents, find_main_object, has_links

BLOG = {
    "@context": "https://schema.org",
    "@graph": [
        {"@type": "WebSite", "@id": "https://x.org/#site", "name": "X", "publisher": {"@id": "https://x.org/#org"}},
        {"@type": "Organization", "@id": "https://x.org/#org", "name": "X Ltd", "url": "https://x.org"},
        {
            "@type": "WebPage",
            "@id": "https://x.org/a#page",
            "url": "https://x.org/a",
            "isPartOf": {"@id": "https://x.org/#site"},
            "breadcrumb": {"@id": "https://x.org/a#crumbs"},
        },
        {"@type": "BreadcrumbList", "@id": "https://x.org/a#crumbs", "itemListElement": []},
        {
            "@type": "Article",
            "@id": "https://x.org/a#article",
            "headline": "A",
            "isPartOf": {"@id": "https://x.org/a#page"},
            "mainEntityOfPage": {"@id": "https://x.org/a#page"},
            "author": {"@id": "#jane"},
            "image": {"@type": "ImageObject", "@id": "https://x.org/a#image", "url": "https://x.org/a.png"},
        },
        {"@type": "Person", "@id": "#jane", "name": "Jane", "image": {"@id": "https://x.org/a#image"}},
    ],
}


def found(value: Any) -> list[dict[str, Any]]:
    return [item for _, item in find_documents(value) if isinstance(item, dict)]


def test_a_page_of_a_content_system_is_one_document() -> None:
    (article,) = found(BLOG)
    assert article["@id"] == "https://x.org/a#article"
    assert article["author"]["name"] == "Jane"
    assert article["author"]["image"]["url"] == "https://x.org/a.png"
    assert article["isPartOf"]["isPartOf"]["publisher"]["name"] == "X Ltd"
    assert article["isPartOf"]["breadcrumb"]["@type"] == "BreadcrumbList"
    assert article["@context"] == "https://schema.org" and "@context" not in article["author"]


def test_what_is_given_is_not_changed() -> None:
    before = orjson.dumps(BLOG)
    found(BLOG)
    assert orjson.dumps(BLOG) == before
    plain = {"@type": "Thing", "name": "n"}
    assert found(plain)[0] is plain and found([plain, plain]) == [plain, plain]


def test_an_object_without_an_address_that_is_linked_is_a_part() -> None:
    place = {"@type": "Place", "@id": "_:b0", "name": "Hall"}
    event = {"@type": "Event", "name": "Fair", "location": {"@id": "_:b0"}}
    assert found([place, event]) == [{"@type": "Event", "name": "Fair", "location": place}]
    assert found([place, {"@type": "Event", "name": "Fair"}])[0] == place


def test_content_with_an_address_stays_a_document_and_is_linked_in_short() -> None:
    recipe = {"@type": "Recipe", "@id": "#r", "url": "https://x.org/r", "name": "Soup", "recipeIngredient": ["salt"]}
    listing = {"@type": "ItemList", "name": "All", "itemListElement": [{"@id": "#r"}]}
    first, second = found({"@graph": [recipe, listing]})
    assert first == recipe
    short = {"@id": "#r", "@type": "Recipe", "name": "Soup", "url": "https://x.org/r"}
    assert second["itemListElement"] == [short]


def test_circles_end_and_lose_nothing() -> None:
    one: dict[str, Any] = {"@type": "Person", "@id": "#1", "name": "one", "knows": {"@id": "#2"}}
    two: dict[str, Any] = {"@type": "Person", "@id": "#2", "name": "two", "knows": {"@id": "#1"}}
    thing: dict[str, Any] = {"@type": "Thing", "@id": "#3", "about": {"@id": "#4"}}
    other: dict[str, Any] = {"@type": "Person", "@id": "#4", "subjectOf": {"@id": "#3"}}
    assert [each["@id"] for each in found([one, two, other, thing])] == ["#1", "#3"]
    assert found([one, two])[0]["knows"] == two
    itself = {"@type": "Thing", "@id": "#s", "sameAs": {"@id": "#s"}}
    assert found(itself) == [itself]


def test_a_chain_of_links_ends() -> None:
    chain = [{"@type": "Person", "@id": f"#{n}", "knows": {"@id": f"#{n + 1}"}} for n in range(50)]
    text = orjson.dumps(found([{"@type": "Article", "author": {"@id": "#0"}}, *chain]))
    assert text.count(b'"@type":"Person"') < 10
    assert b'{"@id":"#4"}' in text or b'{"@id":"#5"}' in text


def test_links_that_would_grow_without_end_stay_links() -> None:
    people = [{"@type": "Person", "@id": f"#{n}", "knows": [{"@id": f"#{m}"} for m in range(100)]} for n in range(100)]
    (first,) = found(people)
    assert first["@id"] == "#0"
    assert 10_000 < len(orjson.dumps(first)) < 1_000_000
    long = {"@type": "Person", "@id": "#long", "name": "x" * 1_000_000}
    articles = [{"@type": "Article", "author": {"@id": "#long"}} for _ in range(100)]
    linked = found([long, *articles])
    assert len(linked) == 100
    assert sum(len(orjson.dumps(each)) for each in linked) < 2_000_000


def test_an_object_is_linked_to_where_it_stands_inside_another() -> None:
    author = {"@type": "Person", "@id": "#jane", "name": "Jane"}
    row = {"@type": "Article", "author": author, "editor": {"@id": "#jane"}, "about": {"@id": "#unknown"}}
    assert has_links(row) and not has_links({"@type": "Article", "author": author})
    assert found(row) == [row | {"editor": author}]


def test_the_node_itself_is_meant_rather_than_a_mention_of_it() -> None:
    mention = {"@type": "Article", "author": {"@id": "#j", "name": "J."}, "editor": {"@id": "#j"}}
    person = {"@type": "Person", "@id": "#j", "name": "Jane"}
    assert found([mention, person])[0]["editor"] == person


@pytest.mark.parametrize("graph", [[{"no": "type"}], ["text"], "text", [3, None], {"no": "type"}])
def test_what_is_no_object_is_said_to_be_none(graph: Any) -> None:
    outcome = [item for _, item in find_documents({"@graph": graph})]
    assert outcome and all(isinstance(item, InvalidDocument) for item in outcome)


def test_a_node_without_a_type_may_be_a_part() -> None:
    graph = [{"@type": "Article", "author": {"@id": "#j"}}, {"@id": "#j", "name": "Jane"}]
    assert list(find_documents({"@graph": graph})) == [(0, {"@type": "Article", "author": graph[1]})]


def test_a_text_that_is_nested_without_end_does_not_break_the_reader() -> None:
    deep: Any = {"@type": "Thing"}
    for _ in range(900):
        deep = {"@type": "Thing", "about": deep, "author": {"@id": "#x"}}
    assert len(found([deep, {"@type": "Person", "@id": "#x"}])) == 1
    nested: Any = []
    for _ in range(900):
        nested = {"@graph": [nested]}
    assert found(nested) == []


ORGANIZATION = {"@type": "Organization", "name": "X", "url": "https://x.org/p"}
CRUMBS = {"@type": "BreadcrumbList"}
PAGE = {"@type": "WebPage", "@id": "https://x.org/p", "name": "P"}
SHOE = {"@type": "Product", "name": "Shoe", "url": "http://www.x.org/p/"}
SOCK = {"@type": "Product", "name": "Sock", "url": "https://x.org/sock"}
FAQ = {"@type": "FAQPage", "mainEntity": [{"@type": "Question", "name": "Why?"}]}
LIST = {"@type": ["ItemList"], "itemListElement": []}


@pytest.mark.parametrize(
    ("objects_", "about"),
    [
        ([ORGANIZATION, CRUMBS, SOCK, SHOE], SHOE),
        ([SOCK, {"@type": "Article", "mainEntityOfPage": {"@id": "https://x.org/p#x"}}], 1),
        ([SOCK, {"@type": "Article", "@id": "https://x.org/p#article"}], 1),
        ([ORGANIZATION, SOCK], SOCK),
        ([PAGE, FAQ], FAQ),
        ([PAGE, SOCK, SOCK], None),
        ([SOCK, LIST, SOCK], LIST),
        ([ORGANIZATION, CRUMBS], None),
        ([PAGE, ORGANIZATION], PAGE),
        ([PAGE | {"mainEntity": SOCK}, CRUMBS], SOCK),
        ([{"@type": 3}, {"@type": []}], None),
        ([], None),
    ],
)
def test_the_object_that_a_page_is_about(objects_: list[Any], about: Any) -> None:
    assert find_main_object(objects_, ["https://x.org/p"]) == (objects_[about] if type(about) is int else about)
