"""Facets against a count by hand: random metadata in several segments, with deletions, filters, words and ranges."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import aidre
from aidre.engine.errors import InvalidFilter
from aidre.engine.index.fields import parse_filter, parse_instant, parse_range
from aidre.engine.ports import Reader
from aidre.engine.types import Facet

_SPACE = aidre.EmbeddingSpace("v", 2, "cosine")
_scalars = st.one_of(
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([2**60, -(2**62), 86_400_000_000, 0.5, -2.25, 1e300, 0.1]),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.sampled_from(["a", "b", "ç", "2026-01-01", "2026-01-02T10:00:00Z", "😀", ""]),
)
_values = st.one_of(st.none(), _scalars, st.lists(_scalars, max_size=3), st.just({"inner": 1}))
_documents = st.lists(st.tuples(_values, st.integers(0, 2), st.integers(0, 4)), min_size=1, max_size=14)
"""The value of the field, the segment, and a number that also says which words the document has."""
_WORDS = ("alpha", "beta", "alpha beta", "gamma", "delta alphas")


def _kind(value: Any) -> str:
    return "bool" if isinstance(value, bool) else "string" if isinstance(value, str) else "number"


def _of(value: Any) -> set[tuple[str, Any]]:
    items = value if isinstance(value, list) else [value]
    return {(_kind(item), item) for item in items if item is not None and not isinstance(item, dict)}


def _store(path: Path, documents: Sequence[tuple[Any, int, int]], deleted: set[int], **more: Any) -> aidre.Collection:
    docs = aidre.open(path).collection("docs", space=_SPACE)
    for segment in range(3):
        rows = [
            {"id": str(n), "text": _WORDS[number], "v": value, "n": number, **more}
            if value is not None
            else {"id": str(n), "text": _WORDS[number], "n": number, **more}
            for n, (value, of_segment, number) in enumerate(documents)
            if of_segment == segment
        ]
        if rows:
            docs.add(rows, vectors=np.eye(2, dtype=np.float32)[[n % 2 for n in range(len(rows))]])
    if deleted:
        docs.delete([str(n) for n in deleted])
    return docs


def _reader(docs: aidre.Collection) -> Reader:
    reader = docs.reader
    assert reader is not None
    return reader


@settings(max_examples=40, deadline=None)
@given(_documents, st.data())
def test_facets_are_those_of_a_count_by_hand(documents: list[tuple[Any, int, int]], data: st.DataObject) -> None:
    deleted = data.draw(st.sets(st.integers(0, len(documents) - 1), max_size=3)) if len(documents) > 3 else set()
    least = data.draw(st.none() | st.integers(0, 4))
    word = data.draw(st.sampled_from([None, "alpha", "beta gamma", "nothing"]))
    limit = data.draw(st.none() | st.integers(1, 4))
    low = data.draw(st.sampled_from([None, -2, 0, 0.3, 2**60]))
    high = data.draw(st.sampled_from([0.4, 3, 2**61]))
    chosen = [
        (value, number)
        for n, (value, _, number) in enumerate(documents)
        if n not in deleted
        and (least is None or number >= least)
        and (word is None or {one.rstrip("s") for one in _WORDS[number].split()} & set(word.split()))
    ]
    counts = Counter(pair for value, _ in chosen for pair in _of(value))
    numbers = [value for (kind, value) in counts if kind == "number"]
    with tempfile.TemporaryDirectory() as folder:
        reader = _reader(_store(Path(folder), documents, deleted))
        filter = None if least is None else parse_filter({"n": {"gte": least}})
        ranges = [parse_range("v", low, high, "")] if low is None or low < high else []
        facet = reader.facet("v", filter, text=word, limit=limit, ranges=ranges)
    assert facet.documents == len(chosen)
    assert facet.missing == sum(value is None or value == [] for value, _ in chosen)
    assert facet.distinct == len(counts)
    assert (facet.minimum, facet.maximum) == ((min(numbers), max(numbers)) if numbers else (None, None))
    order = {"bool": 0, "number": 1, "string": 2}
    expected = sorted(counts.items(), key=lambda pair: (-pair[1], order[pair[0][0]], pair[0][1]))
    assert [((_kind(value), value), number) for value, number in facet.counts] == expected[:limit]
    within = sum(
        any(kind == "number" and (low is None or value >= low) and value < high for kind, value in _of(one))
        for one, _ in chosen
    )
    assert facet.ranges == ((within,) if ranges else ())


def test_dates_of_a_declared_field_have_bounds_and_ranges(tmp_path: Path) -> None:
    days = ["2026-01-01", "2026-01-01T12:00:00+02:00", "2026-02-01T00:00:00Z", "no date"]
    docs = _store(tmp_path, [(day, n % 3, 0) for n, day in enumerate(days[:3])], set())
    reader = _reader(docs)
    ranges = [parse_range("updated_at", None, "2100-01-01", "")]
    facet = reader.facet("updated_at", ranges=ranges)
    assert facet.ranges == (3,)
    assert parse_instant(str(facet.minimum)) is not None
    as_strings = reader.facet("v", ranges=[parse_range("v", "2026-01-01", "2026-01-02", "")])
    assert (as_strings.ranges, as_strings.minimum) == ((2,), None)


@pytest.mark.parametrize(
    ("field", "low", "high"),
    [("v", 2, 1), ("v", 1, 1), ("v", "b", "a"), ("v", "a", 1), ("updated_at", "2026-02-01", "2026-01-01")],
)
def test_a_range_with_its_ends_exchanged_is_refused(tmp_path: Path, field: str, low: Any, high: Any) -> None:
    reader = _reader(_store(tmp_path, [(1, 0, 0)], set()))
    with pytest.raises(InvalidFilter, match="exchange them"):
        reader.facet(field, ranges=[parse_range(field, low, high, "")])


def test_a_field_that_no_document_has_is_missing_everywhere(tmp_path: Path) -> None:
    reader = _reader(_store(tmp_path, [(1, 0, 0), ("a", 1, 1)], set()))
    ranges = [parse_range("none", 1, 2, "")]
    assert reader.facet("none", ranges=ranges) == Facet((), 2, 2, None, None, 0, (0,))


def test_a_facet_is_counted_once_for_a_generation_and_anew_for_the_next(tmp_path: Path) -> None:
    docs = _store(tmp_path, [("a", 0, 0)], set())
    reader = _reader(docs)
    assert reader.facet("v").counts is reader.facet("v").counts
    docs.add([{"id": "next", "text": "alpha", "v": "a"}], vectors=np.eye(2, dtype=np.float32)[:1])
    assert _reader(docs).facet("v").counts == (("a", 2),)


def test_words_choose_the_documents_of_their_chunks(tmp_path: Path) -> None:
    docs = aidre.open(tmp_path).collection(
        "docs", space=aidre.EmbeddingSpace("h", 32, "cosine", True, "aidre", "hashing")
    )
    long = "\n\n".join(f"# Part {n}\n\n" + f"word{n} " * 400 for n in range(4))
    docs.add(
        [{"id": "a", "text": long, "k": 1}, {"id": "b", "text": "word9", "k": 2}, {"id": "c", "text": long, "k": 3}]
    )
    reader = _reader(docs)
    assert reader.chunks > 3
    assert reader.facet("k", text="word3").counts == ((1, 1), (3, 1))
    assert reader.facet("k", text="word9 word0").counts == ((1, 1), (2, 1), (3, 1))
