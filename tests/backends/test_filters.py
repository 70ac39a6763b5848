"""Every engine selects by a filter what brute force selects, and finds min(k, matches) of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from aidre.engine.index.fields import parse_filter
from aidre.engine.model import Query
from aidre.engine.ports import Reader
from tests.support.engines import WRITABLE, store_of
from tests.support.filter_oracle import DATES, passes
from tests.support.stores import NAME, record, space_of

SPACE = space_of("cosine", 8)
FIELDS = ("a", "b", "größe", "x'; drop table", 'q"%(p0)s', "day")
TEXTS = ("", "a", "ab", "b", "É", "水", "nul\0", "3", "true", "x" * 300, "x" * 299 + "y", "'); --", "%s")
NUMBERS = (-1, 0, 1, 3, 3.0, 3.5, -0.0, 1e300, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 0.1, float("inf"))
MOMENTS = ("2026-04-01", "2026-04-01T00:00:00+00:00", "2026-04-01T02:00:00+02:00", "2026-03-31T23:59:59Z", "no date")
SCALARS = (*TEXTS, *NUMBERS, True, False)


def metadata_of(number: int) -> dict[str, Any]:
    """Of every type, alone and in lists, and often missing."""
    random = np.random.default_rng(number)

    def scalar() -> Any:
        return SCALARS[int(random.integers(len(SCALARS)))]

    found: dict[str, Any] = {}
    for name in FIELDS[:-1]:
        kind = int(random.integers(5))
        if kind in {1, 2}:
            found[name] = scalar()
        elif kind == 3:
            found[name] = [scalar() for _ in range(int(random.integers(1, 4)))]
    if random.integers(2):
        found["day"] = MOMENTS[int(random.integers(len(MOMENTS)))]
    return {name: value for name, value in found.items() if not has_infinity(value)}


def has_infinity(value: Any) -> bool:
    """JSON has none: documents cannot hold it, filters can ask for it."""
    return any(one in {float("inf"), -float("inf")} for one in (value if isinstance(value, list) else [value]))


DOCUMENTS = {f"d{number:03}": metadata_of(number) for number in range(150)}


@pytest.fixture(scope="module", params=WRITABLE)
def reader(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """A collection of mixed documents, written in three commits with replaced and deleted ones."""
    vectors = np.random.default_rng(5).standard_normal((len(DOCUMENTS), 8)).astype(np.float32)
    with store_of(request.param, tmp_path_factory.mktemp("store")) as source, pytest.MonkeyPatch.context() as patched:
        if request.param == "postgres":  # so that most filters are compared on the rows of vectors
            patched.setattr("aidre_postgres.reader._FEW_ROWS", 10)
            patched.setattr("aidre_postgres.reader._FEW_SQUARED", 0)
        with source.writer(NAME, spaces=[SPACE], dates=DATES) as writer:
            records = [record(name, metadata=metadata) for name, metadata in DOCUMENTS.items()]
            old = [record(name, metadata={"a": 3, "b": ["ab"]}) for name in DOCUMENTS]
            for batch in (old[:80], records[:50], [*records[50:], record("gone", metadata={"a": 1})]):
                given_vectors = np.resize(vectors, (len(batch), 8))
                writer.upsert(batch, {SPACE.id: writer.encode(SPACE.id, given_vectors)}, {})
                writer.commit()
            writer.delete(["gone"])
            writer.commit()
        yield source.open(NAME)


def comparisons() -> st.SearchStrategy[dict[str, Any]]:
    scalars = st.sampled_from(SCALARS)
    plain = [scalar for scalar in SCALARS if not isinstance(scalar, bool)]
    operators = st.one_of(
        scalars,
        st.fixed_dictionaries({}, optional={"eq": scalars, "ne": scalars, "contains": scalars}).filter(bool),
        st.fixed_dictionaries({}, optional={op: st.sampled_from(plain) for op in ("gt", "gte", "lt", "lte")}).filter(
            bool
        ),
        st.fixed_dictionaries({}, optional={op: st.lists(scalars, max_size=4) for op in ("in", "nin")}).filter(bool),
        st.fixed_dictionaries({"exists": st.booleans()}),
    )
    moments = st.sampled_from(MOMENTS[:-1])
    on_dates = st.one_of(
        moments, st.dictionaries(st.sampled_from(("eq", "ne", "gt", "gte", "lt", "lte")), moments, min_size=1)
    )
    return st.one_of(
        st.dictionaries(st.sampled_from(FIELDS[:-1]), operators, min_size=1, max_size=2),
        st.fixed_dictionaries({"day": on_dates}),
        st.dictionaries(st.just("absent"), operators, min_size=1),
    )


FILTERS = st.recursive(
    comparisons(),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"not": inner}),
        st.fixed_dictionaries({"and": st.lists(inner, max_size=3)}),
        st.fixed_dictionaries({"or": st.lists(inner, max_size=3)}),
    ),
    max_leaves=6,
)


@settings(max_examples=150)
@given(FILTERS, st.integers(1, 160))
@example({"a": {"gt": 2**53}}, 160)
@example({"or": []}, 10)
@example({"and": []}, 160)
@example({"a": {"in": []}}, 10)
@example({"not": {"x'; drop table": {"exists": True}}}, 160)
@example({"b": "x" * 299 + "y"}, 160)
def test_a_filter_selects_what_brute_force_selects(reader: Reader, written: dict[str, Any], k: int) -> None:
    expected = sorted(name for name, metadata in DOCUMENTS.items() if passes(metadata, written))
    filter_ = parse_filter(written)
    passing = [chunk.id for chunk in reader.scan(filter_)]
    assert sorted(chunk.document_id for chunk in reader.scan(filter_)) == expected
    assert [chunk.id for chunk in reader.scan(filter_, start=k)] == passing[k:]
    assert (reader.count(filter_), reader.count_documents(filter_)) == (len(expected), len(expected))
    hits = reader.search(Query(np.ones(8, np.float32), SPACE.id, k, filter=filter_))
    assert len(hits) == min(k, len(expected))
    assert {hit.document_id for hit in hits} <= set(expected)


@pytest.mark.parametrize("op", ["eq", "ne", "gt", "gte", "lt", "lte", "contains"])
@pytest.mark.parametrize("name", ["a", "day"])
def test_an_operator_selects_what_brute_force_selects_for_every_value(reader: Reader, name: str, op: str) -> None:
    if name == "day":
        asked: list[Any] = [] if op == "contains" else [*MOMENTS[:-1]]
    else:
        asked = [one for one in SCALARS if not isinstance(one, bool) or op in {"eq", "ne", "contains"}]
    for value in asked:
        written = {name: {op: value}}
        expected = sorted(one for one, metadata in DOCUMENTS.items() if passes(metadata, written))
        assert sorted(chunk.document_id for chunk in reader.scan(parse_filter(written))) == expected, written


def test_reserved_fields_are_compared(reader: Reader) -> None:
    assert reader.count(parse_filter({"document_id": "d003"})) == 1
    assert reader.count(parse_filter({"document_id": {"in": ["d003", "d004", "gone"]}})) == 2
    assert reader.count(parse_filter({"updated_at": {"gte": "2026-04-01T12:00:00+02:00"}})) == len(DOCUMENTS)
    assert reader.count(parse_filter({"updated_at": {"gt": "2026-04-01T10:00:00Z"}})) == 0
    assert reader.count(parse_filter({"url": {"exists": False}})) == len(DOCUMENTS)


@pytest.mark.parametrize("name", FIELDS[:-1])
def test_facets_count_the_values_of_documents(reader: Reader, name: str) -> None:
    facet = reader.facet(name, parse_filter({"day": {"exists": True}}))
    chosen = [metadata for metadata in DOCUMENTS.values() if "day" in metadata]
    assert (facet.documents, facet.missing) == (len(chosen), sum(name not in metadata for metadata in chosen))
    for value, number in facet.counts:
        assert number == sum(has_value(one.get(name), value) for one in chosen), value
    assert sum(number for _, number in facet.counts) >= facet.documents - facet.missing


def has_value(stored: Any, value: Any) -> bool:
    """Among integers -2**63 marks a missing one: it is stored as a float."""
    values = stored if isinstance(stored, list) else [stored]
    typed = [float(one) if one == -(2**63) and type(one) is int else one for one in values]
    return any(type(one) is type(value) and one == value for one in typed)


@pytest.mark.parametrize("engine", WRITABLE)
def test_a_field_that_later_documents_brought_exists_in_these_alone(engine: str, tmp_path: Path) -> None:
    vectors = np.eye(4, 8, dtype=np.float32)
    later: list[dict[str, Any]] = [{"c": {"k": 3, "x": 1}, "d": {"k": 4, "x": 2}}, {"e": {"x": [5, 6]}}]
    commits: list[dict[str, Any]] = [{"a": {"k": 1}}, {"b": {"k": 2}}, *later]
    with store_of(engine, tmp_path) as source:
        with source.writer(NAME, spaces=[SPACE]) as writer:
            for documents in commits:
                records = [record(name, metadata=metadata) for name, metadata in documents.items()]
                writer.upsert(records, {SPACE.id: writer.encode(SPACE.id, vectors[: len(records)])}, {})
                writer.commit()
        reader = source.open(NAME)
        for name, having in (("x", "cde"), ("k", "abcd"), ("absent", "")):
            for wanted, expected in ((True, having), (False, "".join(sorted(set("abcde") - set(having))))):
                filter_ = parse_filter({name: {"exists": wanted}})
                hits = reader.search(Query(vectors[0], SPACE.id, 9, filter=filter_))
                found = [chunk.document_id for chunk in reader.scan(filter_)]
                assert "".join(sorted(found)) == "".join(sorted(hit.document_id for hit in hits)) == expected
