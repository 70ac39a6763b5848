"""Filters over schema.org objects in a store: the same answers however commits cut it, and names nobody carries."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.index.fields.builder import PRESENT, flatten_member
from aidre.engine.index.fields.field_index import FieldIndex
from aidre.engine.index.fields.filters import MAX_CHARACTERS, parse_filter
from tests.support.fields import build_fields, stored_rows
from tests.support.stores import NAME, ROWS, SPACE, delete, everything, put, record, write

prices = st.sampled_from(["19.99", 25, 7.5, "free", None, True, ["5", 6]])
days = st.sampled_from(["2026-04-01", "2026-04-01T01:00:00+02:00", "soon", None])
objects = st.none() | st.fixed_dictionaries(
    {
        "@type": st.sampled_from(["Product", ["Product", "Vehicle"]]),
        "offers": st.lists(st.fixed_dictionaries({"price": prices, "validThrough": days}), max_size=2),
        "author": st.none() | st.fixed_dictionaries({"name": st.sampled_from(["Ada", "Bob", "long " * 60])}),
    }
)
members = st.fixed_dictionaries({}, optional={"offers.price": prices, "author": st.just({"name": "Ada"})})
FILTERS: list[dict[str, Any]] = [
    {"offers.price": {"gt": 6}},
    {"offers.price": {"in": ["19.99", 5, True]}},
    {"offers.price": {"ne": 25}},
    {"offers.validThrough": {"gte": "2026-04-01"}},
    {"offers.validThrough": "soon"},
    {"author.name": "Ada"},
    {"author.name": {"exists": False}},
    {"type": "Vehicle"},
    {"not": {"offers": {"exists": True}}},
]


@pytest.mark.slow
@settings(deadline=None, max_examples=12)
@given(st.lists(st.tuples(members, objects, st.booleans()), min_size=1, max_size=8), st.sets(st.integers(1, 7)))
def test_any_split_into_commits_gives_the_same_answers_and_merging_them_what_building_them_gives(
    given_: list[tuple[dict[str, Any], Any, bool]], cuts: set[int]
) -> None:
    records = [
        record(f"d{number}", metadata=metadata, schema_object=schema_object)
        for number, (metadata, schema_object, _) in enumerate(given_)
    ]
    gone = [one.document.id for one, (_, _, keep) in zip(records, given_, strict=True) if not keep]
    with TemporaryDirectory() as folder:
        one, many = Path(folder, "one"), Path(folder, "many")
        load(one, [records], gone)
        edges = [0, *sorted(cut for cut in cuts if cut < len(records)), len(records)]
        load(many, [records[a:b] for a, b in pairwise(edges)], gone)
        expected = answers(Store(one).open(NAME))
        assert answers(Store(many).open(NAME)) == expected
        with Store(many).writer(NAME, spaces=[SPACE]) as writer:
            writer.compact()
        merged = Store(many).open(NAME)
        assert answers(merged) == expected
        for part in merged.segments:
            rebuilt = FieldIndex(build_fields(stored_rows(part.segment)))
            assert sorted(part.segment.fields.stored()) == sorted(rebuilt.stored())
            for name, kind in rebuilt.stored():
                column, other = part.segment.fields.column(name, kind), rebuilt.column(name, kind)
                assert (column.dictionary.array.to_pylist(), *map(np.ndarray.tolist, column.pairs())) == (
                    other.dictionary.array.to_pylist(),
                    *map(np.ndarray.tolist, other.pairs()),
                )


def load(path: Path, commits: Sequence[Sequence[Any]], gone: Sequence[str]) -> None:
    with Store(path).writer(NAME, spaces=[SPACE]) as writer:
        for records in commits:
            put(writer, records, ROWS[: len(records)])
            writer.commit()
    if gone:
        delete(path, gone)


def answers(snapshot: Snapshot) -> list[Any]:
    asked = [parse_filter(written) for written in FILTERS]
    found = [snapshot.count(one) for one in asked]
    return [*found, [snapshot.unknown_fields(one) for one in asked], everything(snapshot)]


def test_a_field_that_no_document_has_is_named_once_and_in_order(tmp_path: Path) -> None:
    write(tmp_path, [record("a", metadata={"x": 1}, schema_object={"@type": "Product", "offers": {"price": "5"}})])
    snapshot = Store(tmp_path).open(NAME)
    asked = {
        "or": [{"zebra": 1}, {"x": 1, "metadata.zebra": 2}, {"not": {"apple": {"exists": True}}}, {"offers.price": 5}],
        "type": "Product",
        "url": "x",
        "metadata.url": "x",
    }
    assert snapshot.unknown_fields(parse_filter(asked)) == ("apple", "metadata.url", "zebra")
    assert snapshot.unknown_fields(parse_filter({})) == ()
    assert snapshot.count(parse_filter({"zebra": 1})) == 0
    assert snapshot.count(parse_filter({"zebra": {"ne": 1}})) == 1


@pytest.mark.parametrize("others", [0, 1])
def test_a_field_becomes_unknown_with_the_last_live_document_that_has_it(tmp_path: Path, others: int) -> None:
    carriers = [record(f"x{number}", metadata={"x": number}) for number in range(2)]
    write(tmp_path, [*carriers, *(record(f"y{number}") for number in range(others))])
    asked = parse_filter({"x": {"exists": True}})
    before = Store(tmp_path).open(NAME)
    delete(tmp_path, ["x0"])
    assert Store(tmp_path).open(NAME).unknown_fields(asked) == ()
    delete(tmp_path, ["x1"])
    assert Store(tmp_path).open(NAME).unknown_fields(asked) == ("x",)
    assert before.unknown_fields(asked) == ()


def test_nested_members_end_where_no_filter_can_ask_for_their_names() -> None:
    long = "a" * MAX_CHARACTERS
    assert list(flatten_member("a", {"b": 1})) == [("a", PRESENT), ("a.b", 1)]
    assert list(flatten_member(f"{long}b", {"c": {"d": 1}})) == [(f"{long}b", PRESENT)]
