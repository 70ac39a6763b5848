"""JSON that is made column by column: the bytes that the same values have one by one."""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from aidre.engine.storage.json_columns import (
    add_braces,
    encode_scalars,
    encode_strings,
    fixed_binary,
    join_columns,
    join_members,
    join_present,
    split_binary,
    strip_braces,
)

_PLAIN = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
_TEXT = _PLAIN | st.sampled_from(['"', "\\", "\n\x1f", "é\u2028"])
_texts = st.lists(st.none() | _TEXT, max_size=8)


def strings(values: list[str | None]) -> Any:
    return pa.array(values, pa.large_string())


def binary(values: list[bytes | None]) -> Any:
    return pa.array(values, pa.large_binary())


@pytest.mark.slow
@given(_texts, st.integers(0, 8))
def test_strings_are_quoted_as_one_by_one_wherever_their_column_begins(values: list[str | None], first: int) -> None:
    wanted = [None if value is None else orjson.dumps(value) for value in values[first:]]
    assert encode_strings(strings(values)[first:]).to_pylist() == wanted


@pytest.mark.slow
@given(st.lists(st.tuples(*[st.none() | st.binary(max_size=3)] * 3), max_size=8))
def test_what_is_there_is_listed_and_rows_of_nothing_stay(rows: list[tuple[bytes | None, ...]]) -> None:
    columns = [binary([row[place] for row in rows]) for place in range(3)]
    assert join_present(columns).to_pylist() == [b",".join(each for each in row if each is not None) for row in rows]


def test_an_object_has_the_members_that_are_there() -> None:
    columns = {'a"': encode_strings(strings(["x", None, None])), "n": encode_scalars(pa.array([1, -2, None]))}
    objects = add_braces(join_members(columns))
    assert objects.to_pylist() == [b'{"a\\"":"x","n":1}', b'{"n":-2}', b"{}"]
    assert strip_braces(objects).to_pylist() == [b'"a\\"":"x","n":1', b'"n":-2', b""]


def test_joined_is_null_where_a_part_is_unless_something_stands_for_it() -> None:
    columns = [binary([b"a", None]), binary([b"b", b"c"])]
    assert join_columns(columns, b"-").to_pylist() == [b"a-b", None]
    assert join_columns(columns, b"-", null=b"?").to_pylist() == [b"a-b", b"?-c"]


def test_bytes_are_cut_into_values_of_one_width() -> None:
    assert split_binary(b"aabb", 2).to_pylist() == fixed_binary(b"aabb", 2).to_pylist() == [b"aa", b"bb"]
    assert split_binary(b"", 2).to_pylist() == fixed_binary(b"", 2).to_pylist() == []
