"""In every engine `id` and `title` of a filter mean the members of the row, unless metadata have the name, and a
deletion never removes what its filter seems to spare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from aidre.engine.errors import InvalidFilter
from aidre.engine.index.fields import parse_filter
from aidre.engine.model import Query, Record
from aidre.engine.ports import Reader, Source
from aidre.ingest.pipeline import delete_passing
from tests.support.engines import WRITABLE, store_of
from tests.support.filter_oracle import passes
from tests.support.stores import NAME, record, space_of

SPACE = space_of("cosine", 4)
TITLES = (None, "", "a", "ab", "b", "É", "水", "nul\0", "3", "2026-04-01", "x" * 300, "x" * 299 + "y", "'); --", "%s")
DOCUMENTS = {f"d{number:02}": TITLES[number % len(TITLES)] for number in range(40)}


def write(source: Source, *commits: Sequence[Record], deleted: Sequence[str] = ()) -> None:
    with source.writer(NAME, spaces=[SPACE]) as writer:
        for records in commits:
            vectors = np.resize(np.arange(1, 5, dtype=np.float32), (len(records), 4))
            writer.upsert(records, {SPACE.id: writer.encode(SPACE.id, vectors)}, {})
            writer.commit()
        writer.delete(deleted)
        writer.commit()


def found(reader: Reader, written: Mapping[str, Any]) -> list[str]:
    return sorted(chunk.document_id for chunk in reader.scan(parse_filter(written)))


def delete(source: Source, written: Mapping[str, Any], *, allow_unknown: bool = False) -> int:
    with source.writer(NAME, spaces=None) as writer:
        deleted = delete_passing(writer, parse_filter(written), allow_unknown=allow_unknown)
        writer.commit()
    return deleted


def titled(document_id: str, title: str | None, metadata: Mapping[str, Any] | None = None) -> Record:
    return record(document_id, title=title, metadata=metadata or {})


@pytest.fixture(scope="module", params=WRITABLE)
def reader(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Titled documents in three commits, with replaced and deleted ones."""
    with store_of(request.param, tmp_path_factory.mktemp("store")) as source:
        new = [titled(name, title, {"kind": "new"}) for name, title in DOCUMENTS.items()]
        old = [titled(name, "old") for name in DOCUMENTS]
        write(source, old[:20], new[:10], [*new[10:], titled("gone", "gone")], deleted=["gone"])
        yield source.open(NAME)


def comparisons() -> st.SearchStrategy[dict[str, Any]]:
    ids = st.sampled_from([*list(DOCUMENTS)[:12], "gone", "d"])
    titles = st.sampled_from([*filter(None, TITLES), "", "gone", "old", 3, True])
    texts = st.sampled_from([title for title in TITLES if title is not None])

    def operators(values: st.SearchStrategy[Any], ordered: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        compared = {"eq": values, "ne": values, "contains": values} | dict.fromkeys(("gt", "gte", "lt", "lte"), ordered)
        compared |= dict.fromkeys(("in", "nin"), st.lists(values, max_size=4)) | {"exists": st.booleans()}
        return values | st.fixed_dictionaries({}, optional=compared).filter(bool)

    return st.fixed_dictionaries({"title": operators(titles, texts)}) | st.fixed_dictionaries(
        {"id": operators(ids, ids)}
    )


FILTERS = st.recursive(
    comparisons(),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"not": inner}),
        st.fixed_dictionaries({"and": st.lists(inner, max_size=3)}),
        st.fixed_dictionaries({"or": st.lists(inner, max_size=3)}),
    ),
    max_leaves=5,
)


@settings(max_examples=100)
@given(FILTERS)
@example({"title": {"ne": "x" * 300}})
@example({"title": {"exists": False}})
@example({"title": {"nin": ["a", "b"]}, "id": {"nin": ["d03"]}})
@example({"title": "2026-04-01"})
def test_members_are_compared_as_brute_force_compares_them(reader: Reader, written: dict[str, Any]) -> None:
    members = {name: {"id": name, "title": title} for name, title in DOCUMENTS.items()}
    expected = sorted(name for name, own in members.items() if passes(own, written))
    filter_ = parse_filter(written)
    assert found(reader, written) == expected
    assert (reader.count(filter_), reader.count_documents(filter_)) == (len(expected), len(expected))
    hits = reader.search(Query(np.ones(4, np.float32), SPACE.id, 50, filter=filter_))
    assert sorted(hit.document_id for hit in hits) == expected


@pytest.mark.parametrize("name", ["text", "section"])
def test_what_is_searched_is_refused(reader: Reader, name: str) -> None:
    for written in ({name: "a"}, {"not": {"or": [{"kind": "new"}, {name: {"exists": False}}]}}):
        filter_ = parse_filter(written)
        with pytest.raises(InvalidFilter, match=f"filter.{name} is searched text"):
            reader.count(filter_)
        with pytest.raises(InvalidFilter, match=f"filter.{name} "):
            list(reader.scan(filter_))
        with pytest.raises(InvalidFilter, match=f"filter.{name} "):
            reader.search(Query(np.ones(4, np.float32), SPACE.id, 5, filter=filter_))
    with pytest.raises(InvalidFilter, match=f"facets.{name} "):
        reader.facet(name)


def test_facets_count_members(reader: Reader) -> None:
    expected = {title: list(DOCUMENTS.values()).count(title) for title in TITLES if title is not None}
    facet = reader.facet("title")
    assert dict(facet.counts) == expected
    assert (facet.documents, facet.missing) == (40, list(DOCUMENTS.values()).count(None))
    assert reader.facet("id").distinct == 40
    assert reader.facet("title", parse_filter({"id": "d02"})).counts == (("a", 1),)


def test_unknown_fields_are_those_that_no_live_document_has(reader: Reader) -> None:
    names = ["absent", "kind", "id", "title", "metadata.title", "text", "document_id", "url"]
    asked = parse_filter({"or": [{name: "x"} for name in names]})
    assert reader.unknown_fields(asked) == ("absent", "metadata.title", "text")


def test_metadata_come_first_wherever_a_live_document_has_them(store: Source) -> None:
    """Also where only one segment has the field; the others lack it then."""
    write(
        store,
        [titled("a", "A"), titled("b", "B")],
        [titled("c", "C", {"title": "B", "id": "a", "section": "s", "text": "t"})],
    )
    mixed = store.open(NAME)
    assert [found(mixed, one) for one in ({"id": "a"}, {"title": "B"}, {"section": "s"})] == [["c"]] * 3
    assert found(mixed, {"title": {"ne": "B"}}) == ["a", "b"]
    assert found(mixed, {"metadata.title": "B"}) == ["c"]
    assert mixed.facet("title").counts == (("B", 1),)
    assert mixed.unknown_fields(parse_filter({"text": "t", "section": "s"})) == ()
    write(store, deleted=["c"])
    later = store.open(NAME)
    assert [found(later, one) for one in ({"id": "a"}, {"title": "B"})] == [["a"], ["b"]]
    assert found(later, {"metadata.title": "B"}) == []
    with pytest.raises(InvalidFilter, match=r"filter\.section"):
        later.count(parse_filter({"section": "s"}))


@pytest.mark.parametrize("name", ["id", "title", "text", "section"])
def test_a_deletion_by_a_name_of_two_meanings_is_refused(store: Source, name: str) -> None:
    write(store, [titled("a", "A"), titled("b", "B", {name: "v"})])
    for written in ({name: "v"}, {name: {"ne": "v"}}, {"not": {"and": [{"document_id": "a"}, {name: "v"}]}}):
        with pytest.raises(InvalidFilter, match=f"document_id for the ids .* metadata.{name} "):
            delete(store, written, allow_unknown=True)
    assert store.open(NAME).documents == 2
    assert delete(store, {f"metadata.{name}": "v"}) == 1
    assert found(store.open(NAME), {}) == ["a"]


def test_a_deletion_by_members_spares_what_its_filter_spares(store: Source) -> None:
    write(store, [titled("a", "A"), titled("b", "B"), titled("c", None)], [titled("d", "D"), titled("e", "E")])
    assert delete(store, {"id": {"nin": ["a", "b", "c", "d"]}}) == 1
    assert delete(store, {"title": {"nin": ["A", "B"]}, "id": {"ne": "c"}}) == 1
    assert found(store.open(NAME), {}) == ["a", "b", "c"]
    assert delete(store, {"not": {"or": [{"title": {"contains": "A"}}, {"id": "c"}]}}) == 1
    assert found(store.open(NAME), {}) == ["a", "c"]


@pytest.mark.parametrize(
    "condition", [{"ne": 1}, {"nin": [1]}, {"exists": False}, {"eq": 1}, {"in": [1]}], ids=lambda one: next(iter(one))
)
def test_a_deletion_by_a_field_that_no_live_document_has_is_refused(store: Source, condition: dict[str, Any]) -> None:
    """Deleted documents have no fields, in whatever segment they still are."""
    write(
        store,
        [titled("a", "A", {"price": 1}), titled("b", "B", {"kind": 1})],
        [titled("c", "C", {"price": 2})],
        deleted=["b"],
    )
    for written in ({"kind": condition}, {"or": [{"price": 9}, {"kind": condition}]}, {"not": {"kind": condition}}):
        with pytest.raises(InvalidFilter, match=r"no document has filter.kind, .*allow_unknown"):
            delete(store, written)
    with pytest.raises(InvalidFilter, match=r"no document has filter.kind, filter.type"):
        delete(store, {"kind": condition, "type": {"ne": "Recipe"}})
    assert found(store.open(NAME), {}) == ["a", "c"]
    is_negative = not {"eq", "in"} & condition.keys()
    assert delete(store, {"kind": condition, "price": 2}, allow_unknown=True) == int(is_negative)


def test_a_deletion_compares_ids_with_strings(store: Source) -> None:
    write(store, [titled("1", "One"), titled("2", "Two")])
    for written in ({"id": {"nin": [1, 2]}}, {"not": {"document_id": 1}}, {"title": {"ne": 3}}):
        with pytest.raises(InvalidFilter, match="strings"):
            delete(store, written)
    assert store.open(NAME).documents == 2


def test_nothing_is_deleted_where_nothing_is(store: Source) -> None:
    write(store, [titled("a", "A", {"kind": 1})], deleted=["a"])
    for written in ({"kind": {"ne": 1}}, {"id": {"ne": "a"}}, {"title": {"exists": False}}):
        assert delete(store, written) == 0
    with pytest.raises(InvalidFilter, match=r"filter\.text"):
        delete(store, {"text": "a"})
