"""Sixty laptops with prices and dates of release, for questions with numbers, dates and orders in words."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import cache
from typing import Any

from aidre.engine.model import Document
from tests.support.clients import a_document

BRANDS = ("Lenovo", "Dell", "Acer", "Asus", "Medion", "Fujitsu", "Toshiba", "Samsung")
KINDS = ("business notebook", "gaming laptop", "student laptop", "convertible laptop", "workstation laptop")
PRICES = (199, 249, 299, 349, 379, 399, 449, 499, 549, 699, 899, 1199, 1499, 1999)


@cache
def laptops() -> Mapping[str, Mapping[str, Any]]:
    """The metadata of each, by id."""
    chance = random.Random(7)
    return {
        f"laptop-{number:02}": {
            "price": chance.choice(PRICES),
            "released": f"{2016 + number % 10}-{chance.randrange(1, 13):02}-15",
            "release_year": 2016 + number % 10,
            "ram_gb": chance.choice((4, 8, 16, 32, 64)),
        }
        for number in range(60)
    }


def documents(*fields: str) -> list[Document]:
    """With some of the fields as metadata, `price` and `ram_gb` always; the texts say none of them."""
    kept = {"price", "ram_gb", *fields}
    return [
        a_document(
            name,
            f"A {KINDS[number % len(KINDS)]} by {BRANDS[number % len(BRANDS)]} for work. Laptop number {number}.",
            title=f"{BRANDS[number % len(BRANDS)]} {KINDS[number % len(KINDS)]} {number}",
            metadata={field: value for field, value in members.items() if field in kept},
        )
        for number, (name, members) in enumerate(laptops().items())
    ]
