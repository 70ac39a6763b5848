"""Results spliced by the kernel against the same joined in Python."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import orjson
import pytest
from numpy.typing import NDArray

from tests.support.native import kernel

LAYOUT = (b'{"id":', b',"score":', b',"source":', b',"metadata":{', b',"etag":"', b'"}}', b",")
BATCH, ETAG = 3, 2


def strings(values: list[str]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    encoded = [value.encode() for value in values]
    return np.cumsum([0, *map(len, encoded)]), np.frombuffer(b"".join(encoded), np.uint8)


def batch(first: int, ids: list[str]) -> tuple[Any, ...]:
    sources = [f'{{"url":"https://example.com/{first + n}"}}' for n in range(len(ids))]
    metadata = [f'"n":{first + n}' for n in range(len(ids))]
    etags = np.arange(2 * first, 2 * (first + len(ids))).astype(np.uint8)
    return strings(ids), strings(sources), strings(metadata), etags


def fragments(*segments: list[str]) -> Any:
    batched = tuple([batch(n, ids[n : n + BATCH]) for n in range(0, len(ids), BATCH)] for ids in segments)
    return kernel.Fragments(batched, BATCH, ETAG)


def result(id: str, row: int, score: bytes, *, ids: bool = True, metadata: bool = True) -> bytes:
    return (
        b'{"id":' + (orjson.dumps(id) if ids else b"") + b',"score":' + score
        + b',"source":{"url":"https://example.com/%d"}' % row
        + b',"metadata":{' + (b'"n":%d' % row if metadata else b"")
        + b',"etag":"' + (bytes([2 * row, 2 * row + 1]).hex().encode() if metadata else b"") + b'"}}'
    )  # fmt: skip


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("metadata", [True, False])
def test_results_of_several_segments_and_batches(ids: bool, metadata: bool) -> None:
    names = [[f"a{n}" for n in range(7)], [f"b{n}" for n in range(4)]]
    spliced = fragments(*names).splice([(0, 6), (1, 3), (0, 0)], [b"0.5", b"1", b"-2"], LAYOUT, ids, metadata)
    places = [("a6", 6, b"0.5"), ("b3", 3, b"1"), ("a0", 0, b"-2")]
    assert spliced == b",".join(result(*place, ids=ids, metadata=metadata) for place in places)


def test_ids_are_escaped_as_orjson_does() -> None:
    rng = random.Random(7)
    characters = [chr(n) for n in range(256)] + ['"', "\\", "é", "漢", "😀", "\u2028", "/"]
    ids = ["".join(rng.choices(characters, k=rng.randrange(20))) for _ in range(300)] + ["", *map(chr, range(128))]
    made = fragments(ids)
    for row, id in enumerate(ids):
        spliced = kernel.Fragments(
            ([(strings([id]), strings(["1"]), strings(["2"]), np.zeros(2, np.uint8))],), BATCH, ETAG
        ).splice([(0, 0)], [b"0"], (b"", b"\0", b"", b"", b"", b"", b""), True, False)
        assert spliced is not None
        assert spliced.partition(b"\0")[0] == orjson.dumps(id)
        assert row >= 100 or made.splice([(0, row)], [b"0"], LAYOUT, True, True) is not None


def test_no_hits_are_no_results() -> None:
    assert fragments(["a"]).splice([], [], LAYOUT, True, True) == b""


@pytest.mark.parametrize("hit", [(0, 3), (0, -1), (1, 0), (-1, 0), (0, 1 << 40)])
def test_a_hit_that_is_not_there_is_left_to_others(hit: tuple[int, int]) -> None:
    assert fragments(["a", "b", "c"]).splice([hit], [b"0"], LAYOUT, True, True) is None


@pytest.mark.parametrize("offsets", [[-1, 1], [1, 0], [0, 99], [0, 1 << 40]])
def test_damaged_offsets_are_left_to_others(offsets: list[int]) -> None:
    damaged = (np.array(offsets, np.int64), np.frombuffer(b"abc", np.uint8))
    for place in range(3):
        columns: list[Any] = [strings(["x"])] * 3
        columns[place] = damaged
        made = kernel.Fragments(([(*columns, np.zeros(2, np.uint8))],), BATCH, ETAG)
        assert made.splice([(0, 0)], [b"0"], LAYOUT, True, True) is None


@pytest.mark.parametrize(
    ("hits", "scores", "layout"),
    [
        ([(0, 0)], [], LAYOUT),
        ([(0, 0)], [b"0"], LAYOUT[:6]),
        ([(0, 0)], [0.5], LAYOUT),
        ([(0,)], [b"0"], LAYOUT),
        ([(0, 0)], [b"0"], (*LAYOUT[:6], "x")),
    ],
)
def test_what_is_no_splice_is_refused(hits: Any, scores: Any, layout: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        fragments(["a"]).splice(hits, scores, layout, True, True)
