"""Masks and merges against a plain reading of the documents' JSON: the same answers however rows are split."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from aidre.engine.index.fields.builder import field_names
from aidre.engine.index.fields.field_index import FieldIndex, merge_fields
from tests.support.fields import FieldRow, build_fields, dated

# -- a plain reading of the rules, which knows nothing of columns ------------------------------------------


def values_of(document: FieldRow, name: str) -> list[Any]:
    path = name.removeprefix("metadata.")
    members = [*reach(dict(document.metadata), path), *told(document, path)]
    if name.startswith("metadata."):
        return members
    if name == "type":
        declared = (document.schema_object or {}).get("@type")
        return [document.type, *(declared if isinstance(declared, list) else [declared])]
    if name == "site":
        host = (document.url or "").removeprefix("https://").removeprefix("www.").split("/")[0].lower()
        return [host or None]
    if name in {"url", "document_id", "updated_at"}:
        return [getattr(document, name)]
    return members


def reach(value: Any, path: str) -> Iterator[Any]:
    """Every way to read a dotted path: `a.b` may be one key or two."""
    if isinstance(value, list):
        for element in value:
            yield from reach(element, path)
    elif isinstance(value, dict):
        for key, member in value.items():
            if key == path:
                yield from elements(member)
            elif path.startswith(f"{key}."):
                yield from reach(member, path[len(key) + 1 :])


def elements(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for element in value:
            yield from elements(element)
    else:
        yield value


def told(document: FieldRow, path: str) -> list[Any]:
    """What the schema.org object says of a dotted name."""
    members = (document.schema_object or {}).items()
    told_of = (
        leaf for key, value in members if key not in {"@context", "metadata"} for leaf in spelled_out(value, key)
    )
    return [value for name, value in told_of if name == path]


def spelled_out(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list):
        for element in value:
            yield from spelled_out(element, name)
    elif isinstance(value, dict):
        if not {"@value", "@list", "@set"} & value.keys():
            yield name, {}
        for key, member in value.items():
            if key != "@context":
                yield from spelled_out(member, name if key in {"@value", "@list", "@set"} else f"{name}.{key}")
    elif isinstance(value, str) and len(value) <= 256:
        yield name, value
        yield name, number_of(value)
        if value.startswith("https://schema.org/"):
            yield name, value.removeprefix("https://schema.org/")
    else:
        yield name, {} if isinstance(value, str) else value


def number_of(text: str) -> Any:
    try:
        number = json.loads(text)
    except ValueError:
        return None
    return number if type(number) in {int, float} and text.strip("-0123456789.eE+") == "" else None


def in_64_bits(value: Any) -> Any:
    return float(value) if type(value) is int and not -(2**63) <= value < 2**63 else value


def holds(value: Any, op: str, wanted: Any) -> bool:
    if op == "in":
        return any(holds(value, "eq", one) for one in wanted)
    value, wanted = in_64_bits(value), in_64_bits(wanted)
    numbers = (int, float)
    alike = type(value) is type(wanted) or (type(value) in numbers and type(wanted) in numbers)
    if not alike or type(value) not in {str, bool, int, float}:
        return False
    if isinstance(value, str):
        value, wanted = list(map(ord, value)), list(map(ord, wanted))
    outcome = {"eq": value == wanted, "gt": value > wanted, "gte": value >= wanted, "lt": value < wanted}
    return bool(outcome.get(op, value <= wanted))


def moment(text: Any) -> float | None:
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def answer(document: FieldRow, written: dict[str, Any], dates: Sequence[str] = ()) -> bool:
    return all(answer_member(document, key, value, dates) for key, value in written.items())


def answer_member(document: FieldRow, key: str, value: Any, dates: Sequence[str]) -> bool:
    if key == "and":
        return all(answer(document, part, dates) for part in value)
    if key == "or":
        return any(answer(document, part, dates) for part in value)
    if key == "not":
        return not answer(document, value, dates)
    operators = value if isinstance(value, dict) else {"eq": value}
    return all(answer_operator(document, key, op, wanted, dates) for op, wanted in operators.items())


def answer_operator(document: FieldRow, name: str, op: str, wanted: Any, dates: Sequence[str]) -> bool:
    found = [one for one in values_of(document, name) if one is not None]
    if op == "exists":
        return bool(found) is bool(wanted)
    if op in {"ne", "nin"}:
        return not answer_operator(document, name, "eq" if op == "ne" else "in", wanted, dates)
    if op == "contains":
        texts = [one for one in found if isinstance(one, str) and isinstance(wanted, str)]
        return any(wanted in one for one in texts) or any(
            holds(one, "eq", wanted) for one in found if not isinstance(wanted, str)
        )
    if name in {"updated_at", *dates}:
        found = [moment(one) for one in found]
        wanted = [moment(one) for one in wanted] if op == "in" else moment(wanted)
    elif name.endswith("startDate"):
        several = wanted if op == "in" else [wanted]
        one_op = "eq" if op == "in" else op
        return any(
            holds(one if moment(each) is None else moment(one), one_op, each if moment(each) is None else moment(each))
            for one in found
            for each in several
        )
    return any(holds(one, op, wanted) for one in found)


names = st.sampled_from(["a", "b", "a.b", "b.a", "a.a.b", "type", "url", "when", "startDate", "metadata", "é"])
moments = st.sampled_from(["2026-04-01", "2026-04-01T02:00:00+02:00", "2026-04-01T00:00:00.5Z", "2025-12-31T23:59:59Z"])
texts = st.text(alphabet="a5Zé\ud800\uffff\U0001f600", max_size=2) | st.sampled_from(["5", "true", ""])
whole = st.integers(-3, 3) | st.sampled_from([2**53 + 1, 2**60, 2**60 + 1, 2**63 - 1, -(2**63), 2**63, 2**64])
broken = st.sampled_from(
    [0.5, -0.0, 1.0, 0.1, 1e300, -1e300, 2.0**53, 2.0**60, 2.0**63, -(2.0**63), math.inf, -math.inf]
)
scalars = st.booleans() | whole | broken | texts
stored = st.recursive(
    scalars | st.none() | st.just(math.nan) | moments,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=2),
    max_leaves=5,
)


def joined(members: tuple[dict[str, Any], dict[str, Any]]) -> dict[str, Any]:
    return members[0] | members[1]


jsonld = st.sampled_from(["@value", "@list", "@id", "@context"])
said = st.recursive(
    scalars
    | st.none()
    | moments
    | st.sampled_from(["19.99", "-7", "1e3", "01", " 5", "https://schema.org/a", "a" * 257]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names | jsonld, inner, max_size=2),
    max_leaves=5,
)
said_scalars = st.sampled_from([19.99, -7, 1000, 5, "19.99", "https://schema.org/a", "a"])
typed = st.fixed_dictionaries({"@type": st.sampled_from(["Recipe", ["Thing", "Recipe"], None])})
documents = st.builds(
    FieldRow,
    document_id=st.sampled_from(["d1", "d2", "d3", "é"]),
    url=st.none() | st.sampled_from(["https://www.X.org/a", "https://y.org", "https://y.org/b"]),
    type=st.none() | st.sampled_from(["Recipe", "Article"]),
    updated_at=moments,
    metadata=st.dictionaries(names, stored, max_size=4),
    schema_object=st.none() | st.tuples(st.dictionaries(names | jsonld, said, max_size=3), typed).map(joined),
)
collections = st.lists(documents, max_size=9)


def operators(values: st.SearchStrategy[Any], ordered: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    pairs = (
        st.tuples(st.sampled_from(["eq", "ne"]), values)
        | st.tuples(st.sampled_from(["in", "nin"]), st.lists(values, max_size=20))
        | st.tuples(st.sampled_from(["gt", "gte", "lt", "lte"]), ordered)
        | st.tuples(st.just("exists"), st.booleans())
    )
    return st.lists(pairs, min_size=1, max_size=2).map(dict)


compared = (
    st.tuples(names.filter(lambda name: name != "when"), scalars | operators(scalars, whole | broken | texts))
    | st.tuples(
        names.filter(lambda name: name != "when") | st.just("a.startDate"),
        st.fixed_dictionaries({"contains": scalars | st.sampled_from("-TZe")}),
    )
    | st.tuples(st.sampled_from(["a", "b.a", "metadata.url"]), operators(said_scalars, said_scalars))
    | st.tuples(st.sampled_from(["startDate", "a.startDate"]), operators(moments | texts, moments | texts))
    | st.tuples(st.sampled_from(["updated_at", "when"]), moments | operators(moments, moments))
    | st.tuples(st.sampled_from(["type", "metadata.type"]), operators(st.sampled_from(["Recipe", "Thing"]), texts))
    | st.tuples(st.sampled_from(["site"]), operators(st.sampled_from(["x.org", "y.org"]), st.just("x.org")))
    | st.tuples(st.sampled_from(["document_id"]), operators(st.sampled_from(["d1", "é"]), st.just("d2")))
)
filters = st.recursive(
    st.lists(compared, max_size=2).map(dict),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda parts: {"and": parts})
        | st.lists(inner, max_size=3).map(lambda parts: {"or": parts})
        | inner.map(lambda part: {"not": part})
    ),
    max_leaves=5,
)
DATES = ["when"]


@pytest.mark.slow
@settings(max_examples=80)
@given(collections, st.lists(compared, min_size=8, max_size=8), filters)
def test_masks_say_what_a_plain_reading_of_the_documents_says(
    rows: list[FieldRow], comparisons: list[tuple[str, Any]], combined: dict[str, Any]
) -> None:
    fields = FieldIndex(build_fields(rows, DATES))
    for written in [*({name: value} for name, value in comparisons), combined]:
        expected = [answer(document, written, DATES) for document in rows]
        assert fields.mask(dated(written, DATES)).tolist() == expected, written


@pytest.mark.slow
@settings(max_examples=50)
@given(collections, filters, st.lists(st.integers(0, 9), max_size=3), st.booleans())
def test_any_split_into_parts_gives_the_same_answers(
    rows: list[FieldRow], written: dict[str, Any], cuts: list[int], declared: bool
) -> None:
    edges = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    dates = DATES if declared else ()
    parts = [FieldIndex(build_fields(rows[a:b], dates)) for a, b in pairwise(edges)]
    asked = dated(written, DATES)
    whole = FieldIndex(build_fields(rows, DATES)).mask(asked)
    assert np.concatenate([part.mask(asked) for part in parts]).tolist() == whole.tolist()


@pytest.mark.slow
@settings(max_examples=50)
@given(st.lists(st.tuples(documents, st.booleans()), max_size=9), st.integers(0, 9), filters)
def test_merging_chosen_rows_makes_what_building_from_their_documents_makes(
    marked: list[tuple[FieldRow, bool]], cut: int, written: dict[str, Any]
) -> None:
    parts = []
    for half in (marked[:cut], marked[cut:]):
        fields = FieldIndex(build_fields((document for document, _ in half), DATES))
        parts.append((fields, np.flatnonzero([kept for _, kept in half])))
    chosen = [document for document, kept in marked if kept]
    joined, built = merge_fields(parts), build_fields(chosen, DATES)
    assert repr(joined.to_pylist()) == repr(built.to_pylist())
    names = set().union(*(field_names((document.metadata, document.schema_object)) for document in chosen))
    assert FieldIndex(joined).names == FieldIndex(built).names == names
    asked = dated(written, DATES)
    assert FieldIndex(joined).mask(asked).tolist() == [answer(document, written, DATES) for document in chosen]
