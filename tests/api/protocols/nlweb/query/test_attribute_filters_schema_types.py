"""schema.org's types: how they may be written, and what lies below them."""

from __future__ import annotations

import pytest

from aidre.api.protocols.nlweb.query import attribute_filters
from aidre.api.protocols.nlweb.query.attribute_filters import normalize_type, subtypes_of


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("Recipe", "Recipe"),
        ("recipe", "Recipe"),
        ("Recipes", "Recipe"),
        ("https://schema.org/Recipe", "Recipe"),
        ("http://schema.org/Recipe/", "Recipe"),
        ("schema.org/recipe", "Recipe"),
        ("schema:Recipe", "Recipe"),
        (" local business ", "LocalBusiness"),
        ("local_businesses", "LocalBusiness"),
        ("bakeries", "Bakery"),
        ("TVSeries", "TVSeries"),
        ("faqpage", "FAQPage"),
        ("3dmodel", "3DModel"),
        ("VendorSpecificThing", "VendorSpecificThing"),
        ("https://example.com/Recipe", "https://example.com/Recipe"),
        ("", ""),
    ],
)
def test_a_type_has_one_name_however_it_is_written(written: str, name: str) -> None:
    assert normalize_type(written) == name


@pytest.mark.parametrize(
    ("above", "below"),
    [
        ("Organization", "Restaurant"),
        ("Place", "Restaurant"),
        ("LocalBusiness", "Bakery"),
        ("CreativeWork", "Recipe"),
        ("HowTo", "Recipe"),
        ("CreativeWork", "LiveBlogPosting"),
        ("Event", "MusicEvent"),
        ("Product", "Car"),
        ("MediaObject", "Audiobook"),
        ("Book", "Audiobook"),
        ("Thing", "CreditCard"),
        ("Recipe", "Recipe"),
    ],
)
def test_a_subtype_lies_below_all_that_it_is(above: str, below: str) -> None:
    assert below in subtypes_of(above)


@pytest.mark.parametrize(("above", "other"), [("Recipe", "HowTo"), ("Event", "Person"), ("Product", "Service")])
def test_what_is_no_subtype_is_left_out(above: str, other: str) -> None:
    assert other not in subtypes_of(above)


def test_an_unknown_type_has_itself_alone() -> None:
    assert subtypes_of("VendorSpecificThing") == {"VendorSpecificThing"}


def test_the_tree_has_one_root_and_no_circle() -> None:
    below = {name: subtypes_of(name) for name in attribute_filters._subtypes()}
    assert all(name in below["Thing"] for names in below.values() for name in names)
    for parent, children in attribute_filters._subtypes().items():
        assert len(set(children)) == len(children), f"{parent} names a type twice"
        assert all(parent not in subtypes_of(child) for child in children), f"{parent} lies below itself"
