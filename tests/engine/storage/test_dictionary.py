"""Dictionaries of strings and intervals of values, each against a plain reading of the same definition."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from aidre.engine.storage.dictionary import (
    INT_MAX,
    INT_MIN,
    StringDictionary,
    adjacent_floats,
    adjacent_integers,
    binary_array,
    build_dictionary,
    merge_intervals,
    to_utf8,
)

OPERATORS: dict[str, Any] = {
    "gt": lambda x, v: x > v,
    "gte": lambda x, v: x >= v,
    "lt": lambda x, v: x < v,
    "lte": lambda x, v: x <= v,
    "eq": lambda x, v: x == v,
}
texts = st.text(st.characters(), max_size=4) | st.sampled_from(["", "a", "b", "\ud800", "\uffff", "😀"])


def within(value: float, interval: tuple[float, float]) -> bool:
    return interval[0] <= value <= interval[1]


# -- intervals -------------------------------------------------------------------------------------------------


SMALL = [-2, -1, 0, 1, 2, -1.5, -0.5, 0.5, 1.5]
LARGE = [
    2**53 - 1,
    2**53,
    2**53 + 1,
    2**53 + 2,
    2**53 + 3,
    2**63,
    10**30,
    2.0**53,
    2.0**53 + 4,
    2.0**63,
    1e300,
    math.inf,
]
VALUES = [*SMALL, *LARGE, *(-value for value in LARGE), INT_MIN, INT_MAX, INT_MIN - 1, INT_MAX + 1]


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_interval_of_integers_holds_those_that_compare_so(operator: str) -> None:
    integers = [value for value in VALUES if isinstance(value, int) and INT_MIN <= value <= INT_MAX]
    for value in VALUES:
        interval = adjacent_integers(value).interval(operator)
        assert [x for x in integers if within(x, interval)] == [x for x in integers if OPERATORS[operator](x, value)]


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_interval_of_floats_holds_those_that_compare_so(operator: str) -> None:
    floats = sorted({float(value) for value in VALUES})
    for value in VALUES:
        interval = adjacent_floats(value).interval(operator)
        assert [x for x in floats if within(x, interval)] == [x for x in floats if OPERATORS[operator](x, value)]


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=5), st.booleans())
def test_merged_intervals_hold_the_same_values_in_order_and_apart(
    intervals: list[tuple[int, int]], whole: bool
) -> None:
    merged = merge_intervals(intervals, whole=whole)
    for value in range(13):
        assert any(within(value, one) for one in merged) == any(within(value, one) for one in intervals)
    for (_, end), (start, _) in pairwise(merged):
        assert start - end > (1 if whole else 0)


# -- dictionaries ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.lists(texts, max_size=12) | st.lists(st.sampled_from("abc"), min_size=8, max_size=20))
def test_each_string_has_the_code_of_its_rank(strings: list[str]) -> None:
    dictionary, codes = build_dictionary(binary_array(strings))
    ordered = sorted(set(map(to_utf8, strings)))
    assert [dictionary[code] for code in range(len(dictionary))] == ordered
    assert [ordered[code] for code in codes.tolist()] == list(map(to_utf8, strings))
    assert list(map(to_utf8, dictionary.texts())) == ordered


@pytest.mark.slow
@given(st.lists(texts, max_size=8), texts)
def test_codes_around_a_text_compare_as_the_texts_do(strings: list[str], text: str) -> None:
    dictionary, _ = build_dictionary(binary_array(strings))
    around = dictionary.adjacent_values(text)
    for operator, compare in OPERATORS.items():
        found = [code for code in range(len(dictionary)) if within(code, around.interval(operator))]
        assert found == [code for code in range(len(dictionary)) if compare(dictionary[code], to_utf8(text))]


@pytest.mark.parametrize("asked", [2, 60])
def test_a_few_texts_and_many_are_looked_up_alike(asked: int) -> None:
    strings = [f"{number:03d}" for number in range(1_000)]
    dictionary, _ = build_dictionary(binary_array(strings))
    wanted = [*strings[500 : 500 + asked], "absent", "", "zzz"]
    assert sorted(dictionary.codes(wanted)) == list(range(500, 500 + asked))


def test_an_expression_matches_as_python_reads_it() -> None:
    dictionary, _ = build_dictionary(binary_array(["a-b", "aéb", "ab", "ba", "a\ud800b"]))
    assert dictionary.matching(r"a\Wb", 10) == ["a-b"]
    assert dictionary.matching("b$", 10) == ["a-b", "ab", "aéb"]
    assert dictionary.matching("b", 1) == ["a-b"]
    assert dictionary.matching("x", 10) == []


def test_a_dictionary_of_a_slice_holds_the_strings_of_the_slice() -> None:
    dictionary = StringDictionary(binary_array(["a", "bb", "ccc"])[1:])
    assert [dictionary[code] for code in range(2)] == [b"bb", b"ccc"]
    assert dictionary.first(b"c") == 1
    assert len(StringDictionary(pa.array([], pa.large_binary()))) == 0
