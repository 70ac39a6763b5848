"""Which field `id`, `title`, `text` and `section` mean, and which filters no deletion takes, `members.py`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest

from aidre.engine.errors import InvalidFilter
from aidre.engine.index.fields import (
    TITLE,
    check_deletion,
    field_name,
    filter_digest,
    filter_fields,
    meant_field,
    parse_filter,
    unknown_fields,
    with_members,
)

EVERYWHERE = frozenset({"document_id", "updated_at", TITLE})


def having(*names: str, everywhere: Collection[str] = EVERYWHERE) -> Callable[[str], bool]:
    return lambda name: name in {*names, *everywhere}


@pytest.mark.parametrize(
    ("written", "stored", "meant"),
    [
        ("id", (), "document_id"),
        ("id", ("id",), "id"),
        ("metadata.id", (), "id"),
        ("metadata.id", ("id",), "id"),
        ("title", (), TITLE),
        ("title", ("title",), "title"),
        ("metadata.title", (), "title"),
        ("text", ("text",), "text"),
        ("metadata.text", (), "text"),
        ("metadata.section", (), "section"),
        ("metadata.type", (), "metadata.type"),
        ("metadata.price", (), "price"),
        ("id.x", (), "id.x"),
    ],
)
def test_a_name_means_the_metadata_where_a_document_has_them(written: str, stored: tuple[str, ...], meant: str) -> None:
    assert meant_field(field_name(written), having(*stored), "filter.x") == meant


def test_no_filter_can_write_the_name_of_the_titles() -> None:
    for written in (TITLE, f"metadata.{TITLE}", "(title)", "metadata.metadata.(title)"):
        assert meant_field(field_name(written), having(), "filter.x") != TITLE


def test_all_conditions_of_a_filter_are_resolved() -> None:
    written = {"or": [{"id": "a"}, {"not": {"and": [{"title": {"nin": ["b"]}}, {"price": 1}]}}]}
    filter_ = parse_filter(written)
    resolved = with_members(filter_, having())
    assert filter_fields(resolved) == {"document_id", TITLE, "price"}
    assert filter_digest(resolved) != filter_digest(filter_)
    assert with_members(filter_, having("id", "title")) is filter_


@pytest.mark.parametrize("name", ["text", "section"])
def test_a_member_that_is_searched_is_no_field(name: str) -> None:
    filter_ = parse_filter({"not": {"or": [{name: "a"}]}})
    with pytest.raises(InvalidFilter, match=rf"filter\.{name} .* mode lexical") as caught:
        with_members(filter_, having())
    assert caught.value.details["member"] == "filter"
    with pytest.raises(InvalidFilter, match=rf"filter\.{name} "):
        check_deletion(filter_, having(), allow_unknown=True)
    assert unknown_fields(filter_, having()) == (name,)
    assert with_members(filter_, having(name)) is filter_


def test_names_that_every_collection_has_are_not_unknown() -> None:
    names = ["id", "title", "type", "site", "url", "updated_at", "document_id", "b", "a", "metadata.id", "price"]
    filter_ = parse_filter({"or": [{name: {"exists": True}} for name in names]})
    assert unknown_fields(filter_, having("price")) == ("a", "b", "metadata.id")


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"kin": {"ne": "a"}}, "no document has filter.kin, "),
        ({"not": {"and": [{"b": 1}, {"or": [{"a": 1}, {"kind": 1}]}]}}, "no document has filter.a, filter.b, "),
        ({"metadata.id": {"ne": "a"}}, "no document has filter.metadata.id, "),
        ({"url": {"ne": "a"}}, "no document has filter.url, "),
        ({"kind": {"exists": False}, "id": {"nin": [1]}}, "filter.id has strings alone"),
        ({"not": {"or": [{"title": True}]}}, "filter.title has strings alone"),
    ],
)
def test_a_deletion_is_refused_that_could_take_what_it_seems_to_spare(written: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidFilter) as caught:
        check_deletion(parse_filter(written), having("kind"), allow_unknown=False)
    assert caught.value.message.startswith(message)


def test_a_deletion_by_known_fields_is_taken() -> None:
    written = {"kind": {"ne": 1}, "id": {"nin": ["a"]}, "title": {"exists": False}, "updated_at": {"lt": "2026-01-01"}}
    check_deletion(parse_filter(written), having("kind"), allow_unknown=False)
    check_deletion(parse_filter({"kin": {"ne": 1}}), having("kind"), allow_unknown=True)


@pytest.mark.parametrize("allow_unknown", [True, False])
@pytest.mark.parametrize("name", ["id", "title", "text", "section"])
def test_a_deletion_by_a_name_of_two_meanings_is_refused(name: str, allow_unknown: bool) -> None:
    with pytest.raises(InvalidFilter, match=rf"write document_id .* or metadata\.{name} "):
        check_deletion(parse_filter({"not": {name: "a"}}), having(name), allow_unknown=allow_unknown)
    check_deletion(parse_filter({f"metadata.{name}": "a"}), having(name), allow_unknown=allow_unknown)


@pytest.mark.parametrize("written", [{}, {"and": []}, {"not": {"or": []}}])
def test_a_deletion_without_a_condition_is_refused(written: dict[str, Any]) -> None:
    with pytest.raises(InvalidFilter, match=r'no condition.*"document_id": \{"exists": true\}'):
        check_deletion(parse_filter(written), lambda name: True, allow_unknown=True)
    check_deletion(parse_filter({"document_id": {"exists": True}}), lambda name: True, allow_unknown=False)
