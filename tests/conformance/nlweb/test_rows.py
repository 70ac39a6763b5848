"""NLWeb 0.55: rows of tables as items with the fields of their types (4.1.1). Names begin with the check."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.clients import Client, serving
from tests.support.ingests import Bench
from tests.support.mcp_calls import call
from tests.support.recipes import ask, query, results

SHOP = """sku,name,description,price,currency,brand,image
K-1,Kettle,Steel kettle of 1.7 litres,39,EUR,Ada,https://shop.example/k.jpg
P-7,Pan,Cast iron pan of 28 cm,59,EUR,Bo,https://shop.example/p.jpg
"""
EVENTS = "Name;Start Date;Venue\nKettle workshop;05.06.2026;Town hall\n"
LINES: list[Any] = [
    {"id": "typed", "title": "Kettle book", "text": "A book on the kettle.", "type": "Book", "author": "Cleo"},
    {
        "id": "payload",
        "text": "A kettle that whistles.",
        "semantic_payload": {"@type": "Product", "name": "Whistling kettle", "offers": {"price": 25}, "brand": "Ada"},
    },
]


PARTS = "# Gaskets\n\n| gasket | hall |\n|---|---|\n" + "\n".join(f"| gasket {n} of rubber | {n} |" for n in range(200))


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    bench = Bench(tmp_path_factory.mktemp("rows"))
    bench.write("shop.csv", SHOP)
    bench.write("events.csv", EVENTS)
    bench.rows("lines.jsonl", *LINES)
    bench.write("parts.md", PARTS)
    bench.run()
    with serving(bench.root / "store") as client:
        yield client


def found(client: Client, text: str = "kettle", **attributes: Any) -> dict[str, dict[str, Any]]:
    return {item["@id"]: item for item in results(ask(client, query(text, **attributes)))}


def test_r411_a_row_is_an_item_with_price_brand_and_image(client: Client) -> None:
    item = found(client)["K-1"]
    assert {name: item[name] for name in ("@type", "name", "price", "priceCurrency", "brand", "image", "sku")} == {
        "@type": "Product", "name": "Kettle", "price": 39, "priceCurrency": "EUR", "brand": "Ada",
        "image": "https://shop.example/k.jpg", "sku": "K-1",
    }  # fmt: skip
    assert item["offers"] == {"@type": "Offer", "price": 39, "priceCurrency": "EUR"}
    assert "Steel kettle" in item["description"]


@pytest.mark.parametrize(
    ("attributes", "ids"),
    [
        ({"itemType": "Product"}, {"K-1", "P-7", "payload"}),
        ({"itemType": "Book"}, {"typed"}),
        ({"price": "under 40"}, {"K-1", "payload"}),
        ({"brand": "Ada"}, {"K-1", "payload"}),
        ({"image": "https://shop.example/p.jpg"}, {"P-7"}),
        ({"author": "Cleo"}, {"typed"}),
    ],
)
def test_r6_rows_are_found_by_what_their_items_tell(client: Client, attributes: dict[str, Any], ids: set[str]) -> None:
    assert set(found(client, "kettle pan", **attributes)) == ids


def test_r6_a_start_date_is_a_date_however_it_is_written(client: Client) -> None:
    (item,) = found(client, startDate="June 2026").values()
    assert (item["@type"], item["name"], item["location"]) == ("Event", "Kettle workshop", "Town hall")


def test_r411_a_payload_that_is_a_schema_object_is_the_item(client: Client) -> None:
    item = found(client)["payload"]
    assert (item["@type"], item["name"], item["offers"]) == ("Product", "Whistling kettle", {"price": 25})


def test_fetch_gives_a_table_with_the_names_of_its_columns_once_and_a_line_for_each_row(client: Client) -> None:
    (hit, *_) = call(client, "search", {"query": "gasket 150"})["structuredContent"]["results"]
    assert call(client, "fetch", {"id": hit["id"]})["structuredContent"]["text"] == PARTS


def test_r411_the_passage_of_a_row_of_a_table_names_its_columns(client: Client) -> None:
    (item,) = [item for item in found(client, "gasket 150 of rubber").values() if item["name"] == "Gaskets"]
    passage = item["grounding"]["passage"]
    assert passage.startswith("| gasket | hall |\n|---|---|\n| gasket ")
