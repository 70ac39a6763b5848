"""Words in the kernel: what numpy finds in the plain way, over several blocks and lexicons; what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.native import hits_of, kernel

pytestmark = pytest.mark.skipif(kernel is None, reason="the C kernel was not built here")

DIMENSIONS = 16
BIG = 1 << 62


@dataclass
class Part:
    """The postings, halves, ids and vectors of a segment."""

    starts: NDArray[np.int64]
    rows: NDArray[np.uint32]
    counts: NDArray[np.uint16]
    halves: NDArray[np.float32]
    ids: tuple[NDArray[np.int64], bytes]
    vectors: NDArray[np.float32]

    def given(self) -> tuple[Any, ...]:
        return self.starts, self.rows, self.counts, self.halves, [self.ids], len(self.halves) + 1

    def sums(self, terms: NDArray[np.int64], weights: NDArray[np.float64], delta: float) -> NDArray[np.float64]:
        sums = np.zeros(len(self.halves))
        for term, weight in zip(terms.tolist(), weights.tolist(), strict=True):
            if term >= 0:
                own = slice(self.starts[term], self.starts[term + 1])
                rows, counts = self.rows[own], self.counts[own].astype(np.float64)
                sums[rows] += weight * (counts / (counts + self.halves[rows]) + delta)
        return sums


def part(random: np.random.Generator, chunks: int, *, alike: bool) -> Part:
    """Terms in most chunks to terms in a few; chunks that tie where they are all `alike`."""
    lists = [np.flatnonzero(random.random(chunks) < share) for share in (0.6, 0.3, 0.1, 0.02, 0.002, 0.0005, 0.0)]
    counts = [np.ones(len(one)) if alike else random.geometric(0.6, len(one)) for one in lists]
    halves = np.ones(chunks) if alike else random.uniform(0.3, 3.0, chunks)
    names = [f"{number:06d}".encode() for number in random.permutation(chunks).tolist()]
    vectors = random.standard_normal((chunks, DIMENSIONS))
    vectors = vectors[random.integers(0, 9, chunks)] if alike and chunks else vectors
    return Part(
        np.cumsum([0, *map(len, lists)]),
        np.concatenate(lists).astype(np.uint32),
        np.concatenate(counts).astype(np.uint16),
        halves.astype(np.float32),
        (np.cumsum([0, *map(len, names)]), b"".join(names)),
        (vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)).astype(np.float32),
    )


@dataclass
class Case:
    parts: list[Part]
    terms: NDArray[np.int64]
    weights: NDArray[np.float64]
    delta: float
    masks: list[NDArray[np.bool_] | None]

    def __post_init__(self) -> None:
        self.lexicons = kernel.Lexicons(tuple(one.given() for one in self.parts))
        self.query = self.terms.reshape(-1), self.weights, self.delta
        self.bitmaps = tuple(
            None if mask is None else np.packbits(np.append(mask, False), bitorder="little") for mask in self.masks
        )
        pairs = zip(self.parts, self.terms, strict=True)
        self.sums = [one.sums(own, self.weights, self.delta) for one, own in pairs]

    def columns(self) -> kernel.Columns:
        given = [(one.vectors, [one.ids], len(one.halves) + 1) for one in self.parts]
        return kernel.Columns("cosine", DIMENSIONS, 4, given)

    def allowed(self, number: int) -> NDArray[np.bool_]:
        mask = self.masks[number]
        return np.ones(len(self.parts[number].halves), np.bool_) if mask is None else mask

    def ordered(
        self, scores: list[NDArray[np.float64]], chosen: list[NDArray[np.bool_]]
    ) -> list[tuple[int, int, float]]:
        """The chosen chunks by (score, id)."""
        found = []
        for number, (values, own) in enumerate(zip(scores, chosen, strict=True)):
            offsets, names = self.parts[number].ids
            for row in np.flatnonzero(own).tolist():
                found.append((-values[row], names[offsets[row] : offsets[row + 1]], number, row))
        return [(number, row, -score) for score, _, number, row in sorted(found)]


def case(seed: int, sizes: tuple[int, ...] = (20_000, 0, 9_000)) -> Case:
    random = np.random.default_rng(seed)
    alike = seed % 3 == 2
    parts = [part(random, size, alike=alike) for size in sizes]
    count = int(random.integers(1, 9))
    terms = random.integers(-1, 7, (len(sizes), count))
    weights = np.sort(random.uniform(0.1, 9, count))
    shares = [None if seed % 2 else random.uniform(0, 1) for _ in sizes]
    masks = [None if share is None else random.random(size) < share for size, share in zip(sizes, shares, strict=True)]
    return Case(parts, terms, weights if seed % 4 == 1 else weights[::-1].copy(), (0.0, 0.2)[seed % 2], masks)


@pytest.mark.parametrize("seed", range(6))
def test_the_best_chunks_by_words_are_those_of_all_scores(seed: int) -> None:
    one = case(seed)
    chosen = [(sums > 0) & one.allowed(number) for number, sums in enumerate(one.sums)]
    expected = one.ordered(one.sums, chosen)
    for k in (0, 1, 10, 300, 1 << 40):
        assert hits_of(one.lexicons.search(one.query, k, one.bitmaps)) == expected[:k]


@pytest.mark.parametrize("seed", range(3))
def test_chosen_chunks_have_the_same_scores_in_any_order(seed: int) -> None:
    one, random = case(seed), np.random.default_rng(seed)
    numbers = random.choice([0, 2], 500)
    rows = random.integers(0, 9_000, 500)
    found = np.frombuffer(one.lexicons.score(one.query, numbers, rows))
    assert found.tolist() == [
        one.sums[number][row] for number, row in zip(numbers.tolist(), rows.tolist(), strict=True)
    ]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("a", [0.0, 0.3, 0.9, 1.0])
def test_the_best_chunks_by_words_and_vectors_are_those_of_all_scores(seed: int, a: float) -> None:
    one, random, c = case(seed), np.random.default_rng(seed), 5.0
    columns, query = one.columns(), one.parts[0].vectors[7]
    cosines = [np.empty(len(part.halves)) for part in one.parts]
    bonuses = [np.where(random.random(len(part.halves)) < 0.001, 0.1, 0.0) for part in one.parts]
    for number, values in enumerate(cosines):
        columns.score(number, query, np.arange(len(values)), values)
    scores = [
        a * cosine + (1 - a) * (sums / (sums + c)) + bonus
        for cosine, sums, bonus in zip(cosines, one.sums, bonuses, strict=True)
    ]
    near = one.ordered(cosines, [one.allowed(number) for number in range(3)])[:50]
    known: Any = tuple(np.array([hit[place] for hit in near]) for place in range(3))
    with_bonus = [
        (n, row, bonuses[n][row]) for n in range(3) for row in np.flatnonzero((bonuses[n] > 0) & one.allowed(n))
    ]
    given: Any = tuple(
        np.array([hit[place] for hit in with_bonus], (np.int64, np.int64, np.float64)[place]) for place in range(3)
    )
    is_near = {hit[:2] for hit in near} | {(number, row) for number, row, _ in with_bonus}
    chosen = [(sums > 0) & one.allowed(number) for number, sums in enumerate(one.sums)]
    for number, row in is_near:
        chosen[number][row] = True
    expected = one.ordered(scores, chosen)
    for k in (1, 25, 200):
        found = one.lexicons.fuse(one.query, k, one.bitmaps, columns, query, a, c, known, given, near[-1][2], 1 << 30)
        assert found is not None
        hits = hits_of(found)
        if a > 0 or len(hits) < k or hits[-1][2] > 0:  # with a = 0 chunks without a word tie
            assert [hit[2] for hit in hits] == pytest.approx([hit[2] for hit in expected[:k]], abs=1e-12)
        assert hits == sorted(hits, key=lambda hit: -hit[2])
        assert all(scores[number][row] == pytest.approx(score, abs=1e-12) for number, row, score in hits)
    only_known = one.lexicons.fuse(one.query, 500, one.bitmaps, columns, query, a, c, known, given, None, 0)
    assert only_known is not None
    assert {hit[:2] for hit in hits_of(only_known)} == is_near


def test_a_search_that_would_compare_too_many_gives_up() -> None:
    one = Case([part(np.random.default_rng(1), 5_000, alike=False)], np.array([[0, 1]]), np.ones(2), 0.2, [None])
    nothing: Any = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
    words = one.query, 10, one.bitmaps, one.columns(), one.parts[0].vectors[0], 0.5, 5.0, nothing, nothing, 1.0
    assert one.lexicons.fuse(*words, 9) is None
    found = one.lexicons.fuse(*words, 5_000)
    assert found is not None and len(hits_of(found)) == 10


def test_damaged_postings_give_wrong_scores_and_no_crash() -> None:
    random = np.random.default_rng(0)
    for _ in range(20):
        sound = part(random, 300, alike=False)
        size = len(sound.rows)
        damaged = Part(
            random.integers(-5, size + 5, 8),
            random.integers(0, 400, size).astype(np.uint32),
            random.integers(0, 3, size).astype(np.uint16),
            sound.halves,
            sound.ids,
            sound.vectors,
        )
        lexicons = kernel.Lexicons((damaged.given(),))
        query = np.arange(-1, 9), np.ones(10), 0.0
        for _, row, score in hits_of(lexicons.search(query, 100, (None,))):
            assert 0 <= row < 300 and score > 0
        rows = np.arange(300)
        assert len(lexicons.score(query, np.zeros(300, np.int64), rows)) == 2_400


def _lexicons(**changed: Any) -> kernel.Lexicons:
    given = {
        "starts": np.array([0, 2, 3]),
        "rows": np.array([0, 4, 2], np.uint32),
        "counts": np.ones(3, np.uint16),
        "halves": np.ones(5, np.float32),
        "ids": (),
        "batch": 1,
        **changed,
    }
    return kernel.Lexicons((tuple(given.values()),))


def _search(
    terms: Any = (0, 1), weights: Any = (1.0, 2.0), delta: float = 0.0, k: int = 5, bitmaps: Any = (None,)
) -> Any:
    return _lexicons().search((np.array(terms), np.array(weights), delta), k, bitmaps)


def _fuse(near: Any = ((0,), (0,), (0.5,)), bound: Any = 0.0, **changed: Any) -> Any:
    vectors = np.eye(5, 4, dtype=np.float32)
    given = {"columns": kernel.Columns("cosine", 4, 4, [(vectors, (), 1)]), "vector": vectors[0], "a": 0.5, "c": 1.0}
    given |= changed
    chunks: Any = tuple(np.array(values, dtype) for values, dtype in zip(near, (int, int, float), strict=True))
    query = np.array([0, 1]), np.ones(2), 0.0
    words: Any = (query, 5, (None,), *given.values(), chunks, chunks, bound, 9)
    return _lexicons().fuse(*words)


def _join(near: Any = ((0, 0), (4, 1), (0.5, 0.25)), words: Any = ((0,), (1,), (0.5,)), k: int = 5) -> Any:
    lists: Any = (
        tuple(np.array(values, dtype) for values, dtype in zip(one, (int, int, float), strict=True))
        for one in (near, words)
    )
    return _lexicons().join(k, *lists)


def test_two_lists_are_joined_by_the_sum_of_their_values() -> None:
    assert hits_of(_join()) == [(0, 1, 0.75), (0, 4, 0.5)]
    assert hits_of(_join(k=1)) == [(0, 1, 0.75)]
    assert hits_of(_join(k=0)) == hits_of(_join(k=-1)) == hits_of(_join(((), (), ()), ((), (), ()))) == []
    assert hits_of(_join(((0,), (2,), (np.nan,)), ((), (), ()))) == [(0, 2, 0.0)]
    assert hits_of(_join(((), (), ()), ((0,), (2,), (np.nan,)))) == [(0, 2, -np.inf)]


@pytest.mark.parametrize(
    "lists",
    [
        (((0,), (5,), (0.5,)), ((), (), ())),
        (((0,), (-1,), (0.5,)), ((), (), ())),
        (((1,), (0,), (0.5,)), ((), (), ())),
        (((), (), ()), ((0,), (5,), (0.5,))),
        (((0,), (0, 1), (0.5,)), ((), (), ())),
        (((0,), (0,), (0.5, 0.5)), ((), (), ())),
    ],
)
def test_lists_of_chunks_that_are_not_there_are_not_joined(lists: Any) -> None:
    with pytest.raises(ValueError, match=r"^[a-z]+: "):
        _join(*lists)


def test_what_fits_is_taken() -> None:
    assert len(hits_of(_search())) == 3
    assert hits_of(_search(k=-1)) == hits_of(_search((), ())) == []
    assert len(hits_of(_fuse())) == 3


@pytest.mark.parametrize(
    "make",
    [
        lambda: _lexicons(starts=np.empty(0, np.int64)),
        lambda: _lexicons(starts=np.zeros(3, np.int32)),
        lambda: _lexicons(rows=np.zeros(3, np.int64)),
        lambda: _lexicons(rows=np.zeros(2, np.uint32)),
        lambda: _lexicons(counts=np.zeros(3, np.uint32)),
        lambda: _lexicons(halves=np.zeros(5, np.float32)),
        lambda: _lexicons(halves=np.full(5, np.nan, np.float32)),
        lambda: _lexicons(halves=np.ones(5)),
        lambda: _lexicons(batch=0),
        lambda: _lexicons(ids=((np.empty(0, np.int64), b""),)),
        lambda: kernel.Lexicons([1]),  # type: ignore[arg-type]
        lambda: kernel.Lexicons((1,)),  # type: ignore[arg-type]
        lambda: _search((0,)),
        lambda: _search(weights=(1.0, 0.0)),
        lambda: _search(weights=(1.0, np.nan)),
        lambda: _search(weights=(1.0, np.inf)),
        lambda: _search(delta=-1.0),
        lambda: _search(delta=float("nan")),
        lambda: _search(bitmaps=()),
        lambda: _search(bitmaps=(np.empty(0, np.uint8),)),
        lambda: _lexicons().score((np.array([0]), np.ones(1), 0.0), np.array([0]), np.array([5])),
        lambda: _lexicons().score((np.array([0]), np.ones(1), 0.0), np.array([1]), np.array([0])),
        lambda: _lexicons().score((np.array([0]), np.ones(1), 0.0), np.array([0, 0]), np.array([0])),
        lambda: _fuse(((0,), (5,), (0.5,))),
        lambda: _fuse(((1,), (0,), (0.5,))),
        lambda: _fuse(((0,), (-1,), (0.5,))),
        lambda: _fuse(((0,), (0, 1), (0.5,))),
        lambda: _fuse(bound="1"),
        lambda: _fuse(a=-0.1),
        lambda: _fuse(a=float("nan")),
        lambda: _fuse(c=0.0),
        lambda: _fuse(vector=np.zeros(3, np.float32)),
        lambda: _fuse(vector=np.zeros(4)),
        lambda: _fuse(columns=kernel.Columns("cosine", 4, 4, [(np.eye(4, dtype=np.float32), (), 1)])),
        lambda: _fuse(columns=kernel.Columns("cosine", 4, 4, [])),
    ],
)
def test_what_does_not_fit_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises((ValueError, TypeError)):
        make()


def test_feedback_orders_hits_by_what_the_first_have_in_common() -> None:
    random = np.random.default_rng(3)
    vectors = random.standard_normal((40, DIMENSIONS)).astype(np.float16)
    columns = kernel.Columns("dot", DIMENSIONS, 2, [(vectors[:25], (), 1), (vectors[25:], (), 1)])
    places = random.permutation(40)[:20]
    numbers, rows = np.where(places < 25, 0, 1), np.where(places < 25, places, places - 25)
    scores = np.sort(random.random(20))[::-1].copy()
    wide = vectors[places].astype(np.float64)
    shares = np.exp(4.0 * scores[:6])
    expected = scores + 0.7 * (wide @ (shares @ wide[:6] / shares.sum()))
    order = np.argsort(-expected)
    hits = hits_of(columns.feedback(numbers, rows, scores, 6, 4.0, 0.7))
    assert [hit[:2] for hit in hits] == list(zip(numbers[order].tolist(), rows[order].tolist(), strict=True))
    assert [hit[2] for hit in hits] == pytest.approx(expected[order], abs=1e-5)
    for wrong in ((numbers, rows, scores[:1]), (numbers, rows + 25, scores), (numbers + 2, rows, scores)):
        with pytest.raises(ValueError, match=r"hits|rows|column"):
            columns.feedback(*wrong, 6, 4.0, 0.7)
