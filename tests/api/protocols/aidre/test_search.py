"""The vector of a search request: what is a list of numbers, and what only looks like one."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import numpy as np
import pytest

from aidre.api.config.settings import Limits
from aidre.api.http.http_errors import BadRequest
from aidre.api.http.messages import read_message
from aidre.api.protocols.aidre.search import parse
from aidre.api.protocols.aidre.search_messages import SearchRequest


def vector_of(value: object) -> list[float]:
    found = parse({"query_vector": value, "embedding_space": "s"}, Limits()).question.vector
    assert found is not None
    assert found.dtype == np.float32
    return [float(number) for number in found]


@pytest.mark.parametrize(
    "numbers",
    [
        [0.0, 1.0, 0, 1, -0.0, 0.5],
        [0] * 300,
        [1] * 300,
        [0.0, 1.0] * 200,
        [number / 7 for number in range(-200, 200)],
        [2.0**number for number in range(-100, 100)],
        [],
        [-1.0, 256.0, 65536.0, 1e-45],
    ],
)
def test_numbers_of_every_kind_are_taken_as_they_are(numbers: list[float]) -> None:
    assert vector_of(numbers) == [float(np.float32(number)) for number in numbers]


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("others", [[], [0.3] * 50, [0.0] * 50, [1.0, 0.0] * 20, [0.25] * 9, [1e-20] * 383])
@pytest.mark.parametrize("place", [0, 0.5, 1])
def test_true_and_false_are_no_numbers_wherever_they_stand(flag: bool, others: list[float], place: float) -> None:
    value: list[object] = [*others]
    value.insert(int(place * len(others)), flag)
    with pytest.raises(BadRequest, match="list of numbers"):
        vector_of(value)


@pytest.mark.parametrize(
    "value",
    [[], [0.5, -1], [1e-45, 3.3e38], [True], [0.5, None], ["1"], [[1.0]], "1,2", 5, {"0": 1}, [3.5e38], [-1e300], None],
)
def test_both_ways_to_read_a_vector(value: Any) -> None:
    """The packed one of the hot path, and the struct of the description."""
    try:
        read_message({"query_vector": value}, SearchRequest)
        fits = True
    except BadRequest:
        fits = False
    try:
        parse({"query_vector": value, "embedding_space": "s"}, Limits())
        parses = True
    except BadRequest:
        parses = value is None  # nothing is asked
    assert fits == parses


@pytest.mark.parametrize("numbers", [[], [0.5, -1.0, 3e38], [1e-45] * 3])
def test_a_vector_may_be_base64_of_float32(numbers: list[float]) -> None:
    packed = np.array(numbers, "<f4").tobytes()
    assert vector_of(b64encode(packed).decode()) == [float(np.float32(number)) for number in numbers]


@pytest.mark.parametrize("value", ["AAA=", "AAAA", "AAAAAA", "AAAA AA==", "AAAAAA==\n"])
def test_what_is_no_base64_of_float32_is_refused(value: str) -> None:
    with pytest.raises(BadRequest, match="query_vector"):
        vector_of(value)


@pytest.mark.parametrize("value", ["1,2", {"0": 1}, [[1.0]], ["1"], [None], 5, [1.0, "x"], [1e300]])
def test_what_is_no_list_of_numbers_is_refused(value: object) -> None:
    with pytest.raises(BadRequest, match="query_vector"):
        vector_of(value)
