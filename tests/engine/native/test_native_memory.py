"""Memory of the kernel: it keeps what it reads alive, gives back what it takes, and serves many threads at once."""

from __future__ import annotations

import gc
import threading
import tracemalloc
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.engine.native.test_native_refusals import CODEBOOK, codes_of, columns_of, listed
from tests.support.native import (
    chosen,
    codes_for,
    ids_in_batches,
    kernel,
    one,
    packed,
    probe_of,
    random_codebook,
    runnable,
    whole_list,
)

ROWS, DIMENSIONS = 3_000, 16
LEAK_BYTES = 200_000
"""Of several thousand calls; a leak of a hundred bytes a call is more."""


class Watched(np.ndarray[Any, Any]):
    """An array that weak references may point to."""


def watched(array: Any) -> tuple[Any, weakref.ref[Any]]:
    copy = array.copy().view(Watched)
    return copy, weakref.ref(copy)


def test_what_is_searched_stays_alive_as_long_as_it_may_be_read() -> None:
    rng = np.random.default_rng(0)
    vectors, vectors_ref = watched(rng.standard_normal((ROWS, DIMENSIONS)).astype(np.float32))
    [(offsets, text)] = ids_in_batches([f"{row:05d}" for row in range(ROWS)], ROWS)
    offsets, offsets_ref = watched(offsets)
    text, text_ref = watched(np.frombuffer(text, np.uint8))
    mask, mask_ref = watched(packed(rng.random(ROWS) < 0.5))
    gathered, gathered_ref = watched(np.arange(0, ROWS, 3))
    codebook = random_codebook(0, DIMENSIONS, 8, is_rotated=True)
    rotation, rotation_ref = watched(codebook.rotation)
    query = rng.standard_normal(DIMENSIONS).astype(np.float32)
    _, stored, _, first, start, size = whole_list(0, codebook.encode(vectors), 64)
    stored, stored_ref = watched(stored)
    lists, lists_ref = watched(one(0))
    columns = kernel.Columns("dot", DIMENSIONS, 4, [(vectors, [(offsets, text)], ROWS)])
    codes = kernel.Codes(columns, codebook.codewords, 0.0, rotation, 8, 2, 64, [(0, stored, None, first, start, size)])
    plan = kernel.Plan(columns, (mask,), ((codes, lists, 1_500),), (0,), ((0, gathered),))
    expected = plan.search(query, 20, 50, None, True)
    refs = [vectors_ref, offsets_ref, text_ref, mask_ref, gathered_ref, rotation_ref, stored_ref, lists_ref]
    del vectors, offsets, text, mask, gathered, codebook, rotation, stored, lists, columns, codes, first, start, size
    gc.collect()
    noise = [np.full(ROWS * DIMENSIONS, 7, np.float32) for _ in range(20)]
    assert all(ref() is not None for ref in refs)
    assert plan.search(query, 20, 50, None, True) == expected
    del plan, noise
    gc.collect()
    assert [ref() for ref in refs] == [None] * len(refs)


def test_an_array_that_is_searched_cannot_be_resized() -> None:
    vectors = np.ones((10, 8), np.float32)
    columns = columns_of(vectors)
    with pytest.raises(ValueError, match="resize"):
        vectors.resize((1000, 8), refcheck=True)
    del columns
    held = bytearray(8 * 4 * 10)
    held_by = columns_of(np.frombuffer(held, np.float32).reshape(10, 8))
    with pytest.raises(BufferError):
        held.extend(b"more")
    del held_by


def _lexicons() -> kernel.Lexicons:
    """Two terms in 200 chunks."""
    rows = np.concatenate([np.arange(0, 200, 2), np.arange(0, 200, 3)]).astype(np.uint32)
    halves = np.ones(200, np.float32)
    return kernel.Lexicons(((np.array([0, 100, 167]), rows, np.ones(167, np.uint16), halves, [], 1),))


WORDS = np.array([0, 1]), np.array([2.0, 1.0]), 0.2


def _searches() -> Callable[[], None]:
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((200, 8)).astype(np.float32)
    columns = columns_of(vectors)
    codebook = random_codebook(0, 8, 4)
    codes = codes_for(columns, codebook, 8, 64, [whole_list(0, codebook.encode(vectors), 64)])
    probe = probe_of(codebook, [0], 1)
    plan = kernel.Plan(columns, (None,), ((codes, one(0), 200, probe),), (0,), ((0, one(5)),))
    query, scores, rows, mask = vectors[0], np.empty(3), np.arange(3), packed(rng.random(200) < 0.5)
    encoded, lists = np.empty(8, np.float32), (one(0),)
    lexicons, strings = _lexicons(), kernel.Strings(np.array([0, 1, 2]), b"ab")
    texts, found = kernel.Texts([(np.array([0, 1, 2, 3]), b"aba")], 3), np.zeros(3, np.uint8)
    near = np.zeros(3, np.int64), rows, np.ones(3)

    def search() -> None:
        plan.search(query, 10, 20, None, True)
        plan.search(query, 10, 150, lists, False)
        plan.probe(query, 10, 20, 1, 0.5)
        plan.find([query, query], True, 10, 20, 1, 0.5)
        plan.find([query, None], True, 10, 20, 0, 0.0)
        probe[0].rank(query)
        columns.search(0, query, 10, mask)
        columns.score(0, query, rows, scores)
        kernel.encode_query(query, True, encoded)
        lexicons.search(WORDS, 10, (mask,))
        lexicons.score(WORDS, *near[:2])
        lexicons.fuse(WORDS, 10, (mask,), columns, query, 0.5, 5.0, near, near, 0.9, 1_000)
        lexicons.fuse(WORDS, 10, (mask,), columns, query, 0.5, 5.0, near, near, 0.9, 1)
        lexicons.join(10, near, near)
        columns.feedback(*near, 2, 40.0, 0.2)
        strings.find(b"b")
        texts.find(rows, b"b", found)

    return search


def _makes() -> None:
    columns = columns_of()
    codes = codes_of(listed(), listed(rows=np.arange(100, dtype=np.int32)), columns=columns)
    kernel.Plan(columns, (packed(np.ones(100, np.bool_)),), ((codes, one(0), 100),), (0,), ((0, one(5)),))
    kernel.Strings(np.array([0, 1, 2]), b"ab")
    kernel.Texts([(np.array([0, 1, 2]), b"ab")], 2)
    _lexicons()


def _refuses() -> None:
    columns = columns_of()
    codes = codes_of(listed(), columns=columns)
    plan = kernel.Plan(columns, (None,), ((codes, one(0), 100),), (), ())
    query, lexicons, near = np.ones(8, np.float32), _lexicons(), (one(0), one(0), np.ones(1))
    for call in (
        lambda: columns_of(ids=[(np.zeros(3, np.int64), b"abc"), (np.zeros(3, np.int32), b"")]),
        lambda: columns_of(metric="hamming"),
        lambda: codes_of(listed(), listed(offset=1), columns=columns),
        lambda: codes_of(listed(), listed(rows=np.full(100, 100, np.int32)), columns=columns),
        lambda: codes_of(rotation=np.ones((8, 7), np.float16), columns=columns),
        lambda: codes_of(codewords=np.full((4, 16, 2), np.nan, np.float32), columns=columns),
        lambda: kernel.Plan(columns, (None,), ((codes, one(0), 5), (codes, one(9), 5)), (), ()),
        lambda: kernel.Plan(columns, (None,), (), (0,), ((0, one(100)),)),
        lambda: plan.search(query[:3], 1, 1, None, True),
        lambda: plan.probe(query, 1, 1, -1, 0.0),
        lambda: kernel.Lists(np.ones((2, 3), np.float32), np.ones(64, np.uint8), query, query, query, 1.0, 1.0),
        lambda: plan.find([query], True, -1, 1, 0, 0.0),
        lambda: kernel.Centroids(np.zeros(63, np.uint8), query, query, 1.0, False, False),
        lambda: kernel.Plan(columns, (None,), ((codes, one(0), 5, probe_of(CODEBOOK, [9], 1)),), (), ()),
        lambda: plan.search(query, 1, 1, (one(9),), True),
        lambda: columns.search(0, query, 1, np.zeros(1, np.uint8)),
        lambda: columns.score(0, query, one(0), np.empty(2)),
        lambda: kernel.encode_query(query, True, np.empty(2, np.float32)),
        lambda: kernel.choose("none"),
        lambda: kernel.Strings(np.empty(0, np.int64), b""),
        lambda: kernel.Texts([(np.zeros(2, np.int64), b""), (np.zeros(2, np.int32), b"")], 1),
        lambda: kernel.Texts([(np.zeros(2, np.int64), b"")], 1).find(one(0), b"a", np.zeros(2, np.uint8)),
        lambda: kernel.Lexicons(((one(0), np.zeros(1, np.uint32), np.zeros(2, np.uint16), query, [], 1),)),
        lambda: kernel.Lexicons(((one(0), np.zeros(1, np.uint32), np.zeros(1, np.uint16), query * 0, [], 1),)),
        lambda: lexicons.search(WORDS, 10, (np.zeros(1, np.uint8),)),
        lambda: lexicons.score(WORDS, one(0), one(200)),
        lambda: lexicons.fuse(WORDS, 10, (None,), columns, query, 0.5, 5.0, near, near, 0.9, 1),
        lambda: columns.feedback(one(0), one(100), np.ones(1), 2, 40.0, 0.2),
    ):
        with suppress(ValueError):
            call()
            raise AssertionError("nothing was refused")


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


@pytest.mark.parametrize("name", ["searches", "makes", "refuses"])
def test_many_calls_leave_no_memory_behind(name: str) -> None:
    calls: dict[str, Callable[[], None]] = {"searches": _searches(), "makes": _makes, "refuses": _refuses}
    call = calls[name]
    rounds = {"searches": 3_000, "makes": 2_000, "refuses": 300}[name]
    for _ in range(200):
        call()
    gc.collect()
    before = _resident()
    tracemalloc.start()
    try:
        call()
        traced = tracemalloc.get_traced_memory()[0]
        for _ in range(rounds // 10):
            call()
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - traced < LEAK_BYTES // 10
    finally:
        tracemalloc.stop()
    for _ in range(rounds):
        call()
    gc.collect()
    assert _resident() - before < 4 * LEAK_BYTES + (4 << 20)


@pytest.mark.parametrize("name", runnable())
@pytest.mark.parametrize("dimensions", [16, 768])
def test_threads_that_search_at_once_find_what_one_finds(name: str, dimensions: int) -> None:
    """Short searches hold the lock of the interpreter, long ones do not: both share the memory of their columns."""
    rng = np.random.default_rng(2)
    vectors = rng.standard_normal((ROWS, dimensions)).astype(np.float32)
    codebook = random_codebook(0, dimensions, 8)
    with chosen(name):
        columns = kernel.Columns("dot", dimensions, 4, [(vectors, (), 1)])
    stored = whole_list(0, rng.integers(0, 16, (ROWS, 8)).astype(np.uint8), 64)
    codes = codes_for(columns, codebook, dimensions, 64, [stored])
    scanned = kernel.Plan(columns, (None,), ((codes, one(0), ROWS),), (), ())
    both = kernel.Plan(columns, (None,), ((codes, one(0), ROWS),), (0,), ())
    queries = rng.standard_normal((24, dimensions)).astype(np.float32)
    start = threading.Barrier(6)

    def ask(number: int) -> list[Any]:
        query, found = queries[number], []
        for count in (1, 30, 1_000, 3):
            found += [plan.search(query, 10, count, None, True) for plan in (scanned, both)]
        return [*found, columns.search(0, query, 10, None)]

    def ask_some(first: int) -> list[list[Any]]:
        start.wait()
        return [ask(number) for number in range(first, len(queries), 6)]

    expected = [ask(number) for number in range(len(queries))]
    with ThreadPoolExecutor(6) as threads:
        for first, found in enumerate(threads.map(ask_some, range(6))):
            assert found == expected[first::6]
