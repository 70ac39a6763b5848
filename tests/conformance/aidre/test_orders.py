"""The extension `order` of AIDRE's searches: relevant results in the order of a field; and the return field `image`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aidre.engine.retrieve import ORDERED
from tests.support.clients import Client, a_document, fill_source, serving
from tests.support.discovery import DISCOVERY, refused
from tests.support.engines import chosen_source

LAMPS = [
    a_document(
        f"lamp-{number}",
        f"a lamp with a warm light, number {number}",
        updated_at=f"2026-04-{1 + number * 7 % 20:02}T10:00:00Z",
        metadata={"price": (number * 37) % 100} if number else {},
    )
    for number in range(20)
]
CHEAP = {"query": "a lamp with a warm light", "order": {"field": "price", "direction": "ascending"}}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    store = tmp_path_factory.mktemp("shop")
    fill_source(chosen_source(store), "lamps", LAMPS)
    with serving(store) as client:
        yield client


def answered(client: Client, body: dict[str, Any]) -> dict[str, Any]:
    response = client.search(body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def prices(answer: dict[str, Any]) -> list[Any]:
    return [one["metadata"].get("price") for one in answer["results"]]


def test_discovery_advertises_it(shop: Client) -> None:
    found = shop.get(DISCOVERY).json()
    assert found["extensions"]["order"] == {
        "results": ORDERED,
        "directions": ["ascending", "descending"],
        "values": "numbers and dates",
    }
    assert "order.field" in found["behaviour"]["order"]


@pytest.mark.parametrize("group", ["chunk", "document"])
@pytest.mark.parametrize("direction", ["ascending", "descending"])
def test_results_come_by_the_field_and_those_without_it_last(shop: Client, group: str, direction: str) -> None:
    order = {"field": "price", "direction": direction}
    found = prices(answered(shop, {**CHEAP, "order": order, "group": group, "top_k": 20, "collapse": False}))
    assert found[-1] is None
    assert found[:-1] == sorted((number * 37 % 100 for number in range(1, 20)), reverse=direction == "descending")


@pytest.mark.needs("words")
@pytest.mark.parametrize("query", ['a lamp "warm light"', "a lamp with a warm light, the cheapest"])
def test_it_holds_beside_what_is_read_in_the_words(shop: Client, query: str) -> None:
    order = {"field": "price", "direction": "descending"}
    answer = answered(shop, {"query": query, "order": order})
    assert answer["meta"]["understood"]
    assert prices(answer) == sorted((number * 37 % 100 for number in range(1, 20)), reverse=True)[:10]


def test_a_field_may_be_written_with_metadata_before_it(shop: Client) -> None:
    order = {"field": "metadata.price", "direction": "ascending"}
    assert prices(answered(shop, {**CHEAP, "order": order})) == prices(answered(shop, CHEAP))


@pytest.mark.parametrize("field", ["cost", "metadata.cost", "metadata.title"])
def test_a_field_that_no_document_has_is_named(shop: Client, field: str) -> None:
    named = answered(shop, {**CHEAP, "order": {"field": field, "direction": "ascending"}})["meta"]["ignored"]
    assert named == [field if field.endswith("title") else "cost"]


@pytest.mark.parametrize("field", ["price", "metadata.price", "updated_at"])
def test_a_field_that_a_document_has_is_not_named(shop: Client, field: str) -> None:
    answer = answered(shop, {**CHEAP, "order": {"field": field, "direction": "ascending"}})
    assert "ignored" not in answer["meta"]


def test_dates_are_compared_as_instants(shop: Client) -> None:
    order = {"field": "updated_at", "direction": "descending"}
    dates = [one["metadata"]["updated_at"] for one in answered(shop, {**CHEAP, "order": order})["results"]]
    assert dates == sorted(dates, reverse=True) and len(set(dates)) > 5


def test_every_relevant_result_is_ordered_also_one_with_fewer_of_the_words(tmp_path: Path) -> None:
    shade = a_document("shade", "a lamp with a warm shade", metadata={"price": -1})
    fill_source(chosen_source(tmp_path), "lamps", [*LAMPS, shade])
    with serving(tmp_path) as client:
        first = answered(client, CHEAP)["results"][0]
    assert first["id"] == "shade#chunk_1" and first["relevance"] >= 0.51


@pytest.mark.needs("lexical")
def test_what_is_not_relevant_stays_behind_whatever_its_value(tmp_path: Path) -> None:
    free = a_document("free", "a welcome number of guests", metadata={"price": -1})
    fill_source(chosen_source(tmp_path), "lamps", [*LAMPS, free])
    with serving(tmp_path) as client:
        results = answered(client, {**CHEAP, "query": "lamp warm light number", "mode": "lexical", "top_k": 21})[
            "results"
        ]
    place = [one["id"] for one in results].index("free#chunk_1")
    assert results[place]["relevance"] < results[0]["relevance"]
    assert place == 20


def test_pages_go_on_in_the_order_and_repeat_nothing(shop: Client) -> None:
    body: dict[str, Any] = {**CHEAP, "top_k": 6}
    pages = []
    while True:
        answer = answered(shop, body)
        pages.append(prices(answer))
        if "next_cursor" not in answer["meta"]:
            break
        body["cursor"] = answer["meta"]["next_cursor"]
    assert [len(page) for page in pages] == [6, 6, 6, 2]
    assert [price for page in pages for price in page] == prices(answered(shop, {**CHEAP, "top_k": 20}))


def test_a_cursor_is_bound_to_its_order(shop: Client) -> None:
    cursor = answered(shop, {**CHEAP, "top_k": 3})["meta"]["next_cursor"]
    down = {"field": "price", "direction": "descending"}
    for other in ({"query": CHEAP["query"]}, {**CHEAP, "order": down}):
        refused(shop.search({**other, "top_k": 3, "cursor": cursor}), 400, "invalid_request")


@pytest.mark.parametrize(
    ("order", "member"),
    [
        ("price", "order"),
        ({"field": "price"}, "order.direction"),
        ({"field": "price", "direction": "up"}, "order.direction"),
        ({"field": "", "direction": "ascending"}, "order.field"),
        ({"direction": "ascending"}, "order.field"),
    ],
)
def test_an_order_that_says_nothing_is_400_and_names_the_member(shop: Client, order: Any, member: str) -> None:
    response = shop.search({**CHEAP, "order": order})
    refused(response, 400, "invalid_request")
    assert member in response.json()["message"]


TEXTS = [
    a_document(
        f"recipe-{number}",
        f"a soup of the year {2000 + number}",
        schema_object={"@type": "Recipe", "name": f"Soup {number}", "text": str(2000 + number)},
    )
    for number in range(3)
]


@pytest.mark.needs("vocabulary")
def test_the_order_of_a_text_is_refused_where_texts_are_withheld(tmp_path: Path) -> None:
    fill_source(chosen_source(tmp_path), "recipes", TEXTS)
    body = {"query": "soup", "order": {"field": "text", "direction": "ascending"}}
    with serving(tmp_path) as open_one:
        answered(open_one, body)
    with serving(tmp_path, "[collections.recipes]\nreturn_text = false") as withheld:
        refused(withheld.search(body), 422, "unsupported_return_field")


def test_an_image_is_told_where_it_is_asked_for(tmp_path: Path) -> None:
    pictured = a_document("a", "a lamp", url="https://example.com/lamps/a", metadata={"image": "../img/a.png"})
    fill_source(chosen_source(tmp_path), "lamps", [pictured, a_document("b", "a lamp, too")])
    with serving(tmp_path) as client:
        [asked] = [answered(client, {"query": "a lamp", "return": {"image": True}})["results"]]
        plain = answered(client, {"query": "a lamp"})["results"]
    assert {one["id"]: one.get("image") for one in asked} == {
        "a#chunk_1": "https://example.com/img/a.png",
        "b#chunk_1": None,
    }
    assert not any("image" in one for one in plain)
