"""Numbers, dates and orders in words: which fields of a collection they are read as, and what they change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import aidre
from tests.support.laptops import documents, laptops

Collection = Any
Fits = Callable[[Mapping[str, Any]], bool]


def filled(folder: Path, name: str, rows: Any, **options: Any) -> Collection:
    collection = aidre.open(folder).collection(name, **options)
    with collection.writer() as writer:
        for row in rows:
            writer.add(row)
    return collection


@pytest.fixture(scope="module", params=["release_year", "released"])
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    """The laptops with a year as a number, and with a date as a string that nothing declares."""
    yield filled(tmp_path_factory.mktemp("store"), "laptops", documents(request.param))


def shown(hits: Any) -> list[tuple[str, float]]:
    return [(hit.id, hit.score) for hit in hits]


def year(laptop: Mapping[str, Any]) -> int:
    return int(laptop["release_year"])


NEWEST = sorted((laptop["released"] for laptop in laptops().values()), reverse=True)[9]
FITTING: list[tuple[str, Fits]] = [
    ("laptops released after 2023", lambda one: year(one) > 2023),
    ("laptops under 400 euros", lambda one: one["price"] < 400),
    ("less than 500 euros released since 2022", lambda one: one["price"] < 500 and year(one) >= 2022),
    ("laptops with more than 16 GB ram", lambda one: one["ram_gb"] > 16),
    ("laptops under four hundred euros", lambda one: one["price"] < 400),
    ("a laptop for at most €499", lambda one: one["price"] <= 499),
    ("laptops between 300 and 500 €", lambda one: 300 <= one["price"] <= 500),
    ("laptops from EUR 1,000 to EUR 1,500", lambda one: 1000 <= one["price"] <= 1500),
    ("laptops released between 2019 and 2021", lambda one: 2019 <= year(one) <= 2021),
    ("laptops released from 2019 to 2021", lambda one: 2019 <= year(one) <= 2021),
    ("laptops released in 2020 or later", lambda one: year(one) >= 2020),
    ("laptops released before January 2019", lambda one: year(one) < 2019),
    ("laptops that came out until 2018", lambda one: year(one) <= 2018),
    ("laptop with ram of at least 32 GB", lambda one: one["ram_gb"] >= 32),
    ("laptop with 32 GB ram or more", lambda one: one["ram_gb"] >= 32),
    ("laptops priced no more than 349", lambda one: one["price"] <= 349),
    ("laptops cheaper than 349", lambda one: one["price"] < 349),
    ("Laptops unter 400 Euro", lambda one: one["price"] < 400),
    ("Laptops, erschienen seit 2022", lambda one: year(one) >= 2022),
    ("Laptops unter vierhundert Euro", lambda one: one["price"] < 400),
    ("ordinateur portable à moins de 400 euros", lambda one: one["price"] < 400),
    ("portátiles por menos de 400 euros", lambda one: one["price"] < 400),
]


@pytest.mark.parametrize(("question", "fits"), FITTING)
def test_all_hits_fit_what_the_question_says(shop: Collection, question: str, fits: Fits) -> None:
    hits = shop.search(question)
    expected = min(10, sum(map(fits, laptops().values())))
    assert expected > 0
    assert len(hits) == expected, hits.understood
    assert all(fits(laptops()[hit.document_id]) for hit in hits), hits.understood
    assert all(one["applied"] for one in hits.understood["conditions"])


@pytest.mark.parametrize(
    ("question", "field", "descends"),
    [
        ("the newest laptop", "released", True),
        ("most recent laptops", "released", True),
        ("oldest laptop", "released", False),
        ("cheapest laptop", "price", False),
        ("the most expensive laptop", "price", True),
        ("der neueste Laptop", "released", True),
        ("le portable le moins cher", "price", False),
    ],
)
def test_an_order_in_words_is_that_of_the_hits(shop: Collection, question: str, field: str, descends: bool) -> None:
    hits = shop.search(question)
    [condition] = hits.understood["conditions"]
    key = condition["order"]["field"]
    assert condition["applied"]
    assert condition["order"]["direction"] == ("descending" if descends else "ascending")
    values = [hit.metadata[key] for hit in hits]
    assert values == sorted(values, reverse=descends)
    best = sorted((laptop[key] for laptop in laptops().values()), reverse=descends)
    assert values == best[:10]
    assert field in {"price", "released"}


def test_an_order_and_a_filter_hold_together(shop: Collection) -> None:
    hits = shop.search("the newest laptop under 400 euros")
    assert len(hits.understood["conditions"]) == 2
    assert all(laptops()[hit.document_id]["price"] < 400 for hit in hits)
    years = [year(laptops()[hit.document_id]) for hit in hits]
    assert years == sorted(years, reverse=True)


PLAIN = """
10 tips for a better battery
HTTP 404 error
Python 3.12 release notes
what happened in 1945
error 0x80070005 on windows 11
laptop with 16 GB ram
USB 3.0 against USB 2.0
how to install ubuntu 22.04
top 5 gaming laptops
7 habits of effective people
the year 2000 problem
intel core i7 9750H
what is 5G
convert 100 euros to dollars
1984 by George Orwell
how many bytes are in 2 kilobytes
section 230 explained
RFC 9110
is 8 GB of memory enough
a 15 inch screen
24/7 support
boeing 737 max
version 2.0.1 changelog
the latest version of python
apollo 11 in 1969
world war 2
100 years of solitude
area 51
how do I split a string into 3 parts
life expectancy in 1900
one laptop per child
two monitors on one laptop
the first thousand days
catch 22
from 9 to 5
step 3 of the setup
90 day warranty
50 shades of grey
route 66
windows 95 released
""".strip().splitlines()


@pytest.mark.parametrize("question", PLAIN)
def test_numbers_that_ask_for_nothing_change_nothing(shop: Collection, question: str) -> None:
    hits, typed = shop.search(question), shop.search(question, operators=False)
    assert shown(hits) == shown(typed)
    assert not hits.understood
    assert len(PLAIN) == 40


@pytest.mark.parametrize(
    "question", ["laptops after 2020", "laptops under 400", "memory of more than 16 GB", "history before 2019"]
)
def test_what_is_not_certain_is_offered_and_changes_nothing(shop: Collection, question: str) -> None:
    hits, typed = shop.search(question), shop.search(question, operators=False)
    assert shown(hits) == shown(typed)
    [condition] = hits.understood["conditions"]
    assert not condition["applied"]
    assert condition["filter"]
    assert shop.search(question, filter=condition["filter"])


def test_a_filter_that_leaves_nothing_is_dropped_with_a_note(shop: Collection) -> None:
    hits = shop.search("laptops under 5 euros")
    assert len(hits) == 10
    assert shown(hits) == shown(shop.search("laptops under 5 euros", operators=False))
    [condition] = hits.understood["conditions"]
    assert (condition["applied"], condition["note"]) == (False, "nothing fits it")


def test_the_member_refuses_conditions(shop: Collection) -> None:
    hits = shop.search("laptops under 400 euros", operators=False)
    assert not hits.understood
    assert any(
        laptops()[hit.document_id]["price"] >= 400
        for hit in shop.search("laptops under 400 euros", k=60, operators=False)
    )


def test_words_in_quotes_are_no_condition(shop: Collection) -> None:
    hits = shop.search('"under 400 euros" laptop')
    assert "conditions" not in hits.understood


def test_offsets_go_on_in_the_order(shop: Collection) -> None:
    whole = shop.search("the newest laptop", k=20)
    pages = [shop.search("the newest laptop", k=10, offset=offset) for offset in (0, 10)]
    assert shown(whole) == [*shown(pages[0]), *shown(pages[1])]


@pytest.mark.parametrize(
    ("question", "metadata", "understood"),
    [
        ("bags under 400 dollars", {"price_eur": 300}, None),
        ("bags under 400 euros", {"price_eur": 300, "price_usd": 500}, {"price_eur": {"lt": 400}}),
        ("bags under 400 euros", {"price": "300"}, None),
        ("bags over 2 kg", {"weight_g": 3000, "weight_note": "heavy"}, None),
        ("bags with a weight over 2 kg", {"weight_g": 3000}, {"weight_g": {"gt": 2000}}),
        ("bags released after 2020", {"published": "2021-01-01", "year": "2021"}, {"year": {"gte": "2021"}}),
        ("articles published since March 2021", {"published": "2021-04-01"}, {"published": {"gte": "2021-03-01"}}),
        ("articles published since 2021", {"released": 2021}, None),
        ("what was updated after 2020", {"year": 2021}, {"updated_at": {"gte": "2021-01-01T00:00:00Z"}}),
        ("books with more than 300 pages", {"numberOfPages": 400}, {"numberOfPages": {"gt": 300}}),
        ("hotels with a rating above 4", {"rating": 4.5}, {"rating": {"gt": 4}}),
        ("bags under 400 euros", {"price": True}, None),
        ("houses built before 1950", {"year_built": 1920}, {"year_built": {"lte": 1949}}),
    ],
)
def test_a_condition_is_applied_where_the_field_is_certain(
    tmp_path: Path, question: str, metadata: dict[str, Any], understood: dict[str, Any] | None
) -> None:
    rows = [
        {"id": f"{number}", "text": "bags, articles, books, hotels and houses", "metadata": metadata}
        for number in range(3)
    ]
    shop = filled(tmp_path, "things", rows)
    conditions = shop.search(question).understood.get("conditions", [])
    assert [one["filter"] for one in conditions if one["applied"]] == ([] if understood is None else [understood])


def test_a_currency_beside_the_price_has_to_be_the_one_that_is_asked_for(tmp_path: Path) -> None:
    rows = [
        {"id": "euro", "text": "a bag", "metadata": {"price": 300, "currency": "EUR"}},
        {"id": "dollar", "text": "a bag", "metadata": {"price": 300, "currency": "USD"}},
        {"id": "unknown", "text": "a bag", "metadata": {"price": 300}},
    ]
    hits = filled(tmp_path, "bags", rows).search("a bag under 400 euros")
    assert {hit.document_id for hit in hits} == {"euro", "unknown"}
