"""One query against brute force: ranking, ties, scores, numbers of results, however the rows are cut into segments."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.errors import DimensionMismatch, InvalidInput, InvalidVector, SpaceMissing
from aidre.engine.index.fields.filters import parse_filter
from aidre.engine.index.vectors.encoding import encode
from aidre.engine.model import Distance, Mode, Query
from aidre.engine.types import Hit
from tests.support.calibrations import measured_quickly
from tests.support.stores import (
    DISTANCES,
    NAME,
    Vectors,
    ask,
    best,
    fill,
    names,
    normal,
    put,
    recall,
    shuffled,
    space_of,
    structured,
    true_scores,
)

DIMENSIONS = (1, 2, 8, 64, 384, 1536)


def kinds(snapshot: Snapshot) -> list[bool]:
    """Of each segment, whether it has a scan."""
    return [bool(part.segment.scans) for part in snapshot.segments]


# -- exact segments ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dimensions", DIMENSIONS)
@pytest.mark.parametrize("distance", ["dot", "euclidean"])
def test_the_ranking_is_that_of_brute_force_with_ties_by_id(
    distance: Distance, dimensions: int, tmp_path: Path
) -> None:
    # Small whole numbers have no rounding in any kernel: equal scores are equal, and few dimensions give many.
    rng = np.random.default_rng(dimensions)
    rows = rng.integers(-3, 4, (300, dimensions)).astype(np.float32)
    ids = shuffled(names(len(rows)))
    snapshot = fill(tmp_path, space_of(distance, dimensions), rows, ids, commits=3)
    for query in rng.integers(-3, 4, (5, dimensions)).astype(np.float32):
        wanted = best(true_scores(distance, rows, query), ids, len(rows))
        assert ask(snapshot, query, 10) == wanted[:10]
        assert ask(snapshot, query, len(rows)) == wanted


@pytest.mark.parametrize("dimensions", [4, 64, 1024])
def test_the_cosine_ranking_is_that_of_brute_force_with_ties_by_id(dimensions: int, tmp_path: Path) -> None:
    # Signs in 4^n dimensions have the norm 2^n: unit rows and their products are exact in float16 and float32.
    rng = np.random.default_rng(dimensions)
    rows = rng.choice([-1.0, 1.0], (300, dimensions)).astype(np.float32)
    ids = shuffled(names(len(rows)))
    snapshot = fill(tmp_path, space_of("cosine", dimensions), rows, ids, commits=3)
    for query in rng.choice([-1.0, 1.0], (5, dimensions)).astype(np.float32):
        assert ask(snapshot, query, len(rows)) == best(true_scores("cosine", rows, query), ids, len(rows))


@pytest.mark.parametrize("dimensions", DIMENSIONS)
def test_the_cosine_ranking_of_any_rows_is_that_of_their_stored_form(dimensions: int, tmp_path: Path) -> None:
    space = space_of("cosine", dimensions)
    rows = normal(300, dimensions, 1)
    ids = shuffled(names(len(rows)))
    snapshot = fill(tmp_path, space, rows, ids, commits=3)
    stored = encode(space, rows).codes.astype(np.float64)
    for query in normal(5, dimensions, 2):
        unit = query.astype(np.float64) / np.linalg.norm(query.astype(np.float64))
        wanted = best((stored * unit).sum(axis=1).round(12), ids, len(rows))
        found = ask(snapshot, query, len(rows))
        assert found[:10] == wanted[:10]
        given = dict(zip(ids, true_scores("cosine", rows, query).tolist(), strict=True))
        scores = [given[one] for one in found]
        assert np.allclose(scores, sorted(scores, reverse=True), rtol=0, atol=5e-4)


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("dimensions", [1, 2, 8, 64, 384])
def test_a_score_is_the_exact_value_of_the_vectors_as_given(
    distance: Distance, dimensions: int, tmp_path: Path
) -> None:
    rng = np.random.default_rng(3)
    rows = normal(200, dimensions, 3) * 10 ** rng.uniform(-4, 4, (200, 1)).astype(np.float32)
    space = space_of(distance, dimensions)
    snapshot = fill(tmp_path, space, rows, commits=2)
    place = {one: row for row, one in enumerate(names(200))}
    for query in normal(5, dimensions, 4) * np.float32(7.5):
        exact = true_scores(distance, rows, query)
        for hit in snapshot.search(Query(query, space.id, 200)):
            row = place[hit.chunk.document_id]
            scale = 1.0 if distance == "cosine" else np.linalg.norm(rows[row]) * np.linalg.norm(query)
            if distance == "euclidean":
                scale = max(scale, float(np.linalg.norm(query)) ** 2)
            assert abs(hit.score - exact[row]) <= 1e-3 * scale


def test_a_cosine_score_never_leaves_its_range(tmp_path: Path) -> None:
    rows = normal(300, 384, 5)
    space = space_of("cosine", 384)
    snapshot = fill(tmp_path, space, np.concatenate([rows, -rows]))
    for query in rows[:20]:
        scores = [hit.score for hit in snapshot.search(Query(query, space.id, 600))]
        assert max(scores) <= 1.0
        assert min(scores) >= -1.0
        assert scores[0] == pytest.approx(1.0, abs=1e-3)
        assert scores == sorted(scores, reverse=True)


def test_a_far_origin_does_not_blur_euclidean_neighbours(tmp_path: Path) -> None:
    rows = normal(500, 8, 6) + np.float32(1000)
    snapshot = fill(tmp_path, space_of("euclidean", 8), rows)
    for query in rows[:10]:
        assert ask(snapshot, query) == best(true_scores("euclidean", rows, query), names(500), 10)


@pytest.mark.usefixtures("quick_calibration")
@pytest.mark.parametrize("distance", DISTANCES)
def test_rows_that_are_all_alike_are_found_by_a_query_that_has_nothing_of_them(
    distance: Distance, tmp_path: Path
) -> None:
    row, query = np.eye(512, dtype=np.float32)[[3, 7]]
    snapshot = fill(tmp_path, space_of(distance, 512), np.repeat(row[None], 2_600, axis=0))
    assert kinds(snapshot) == [True]
    assert ask(snapshot, query, 10) == names(10)
    assert ask(snapshot, row, 10) == names(10)


# -- what is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vector", "error"),
    [
        ([1.0, 2.0], DimensionMismatch),
        ([0.0] * 4, InvalidVector),
        ([1.0, np.nan, 0.0, 0.0], InvalidVector),
        ([1.0, np.inf, 0.0, 0.0], InvalidVector),
        ([1e30, 0.0, 0.0, 0.0], InvalidVector),
        ([1e300, 1e300, 0.0, 0.0], InvalidVector),
        ([10**400, 0, 0, 0], InvalidVector),
        (["one", "two", "three", "four"], InvalidVector),
        ([[1.0], [2.0, 3.0], [], []], InvalidVector),
        ([1e-170] * 4, InvalidVector),
    ],
)
def test_a_query_that_has_no_place_in_the_space_is_refused(vector: Any, error: type[Exception], tmp_path: Path) -> None:
    space = space_of("cosine", 4)
    snapshot = fill(tmp_path, space, normal(3, 4))
    with pytest.raises(error):
        snapshot.search(Query(vector, space.id))


@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
@pytest.mark.parametrize(("top_k", "offset"), [(0, 0), (0, 2), (-1, 5), (1, -1)])
def test_a_query_that_wants_no_hits_is_refused(mode: Mode, top_k: int, offset: int, tmp_path: Path) -> None:
    space = space_of("cosine", 4)
    snapshot = fill(tmp_path, space, normal(3, 4))
    query = Query(normal(1, 4)[0], space.id, top_k, offset, text="text", mode=mode)
    for search in (lambda: snapshot.search(query), lambda: snapshot.search_all([query, query])):
        with pytest.raises(InvalidInput, match=f"top_k is {top_k} and offset is {offset}"):
            search()


def test_an_unknown_space_is_refused_by_name(tmp_path: Path) -> None:
    snapshot = fill(tmp_path, space_of("cosine", 4), normal(3, 4))
    with pytest.raises(SpaceMissing, match="elsewhere"):
        snapshot.search(Query([1.0] * 4, "elsewhere"))


# -- numbers of results ------------------------------------------------------------------------------------

FILTERED_ROWS = 3000
PORTIONS = {"none": 0, "one": 1, "seven": 7, "percent": 30, "tenth": 300, "half": 1500, "all": 3000}


@pytest.fixture(scope="module", params=["exact", "scan"])
def filtered(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Snapshot, Vectors]:
    """3,000 rows in 3 segments that fall under seven filters, every third one deleted; 16 dimensions or 768."""
    dimensions = 16 if request.param == "exact" else 768
    rows = structured(FILTERED_ROWS, dimensions)
    order = np.random.default_rng(8).permutation(FILTERED_ROWS)
    metadata: list[dict[str, Any]] = [
        {name: bool(place < size) for name, size in PORTIONS.items()} for place in order.tolist()
    ]
    path = tmp_path_factory.mktemp("filtered")
    space = space_of("cosine", dimensions)
    with measured_quickly():
        fill(path, space, rows, commits=3, metadata=metadata)
        with Store(path).writer(NAME, spaces=[space]) as writer:
            writer.delete(names(FILTERED_ROWS)[::3])
            writer.commit()
    snapshot = Store(path).open(NAME)
    assert kinds(snapshot) == [request.param == "scan"] * 3
    return snapshot, rows


def alive(portion: str) -> list[int]:
    order = np.random.default_rng(8).permutation(FILTERED_ROWS)
    return [row for row, place in enumerate(order.tolist()) if place < PORTIONS[portion] and row % 3]


@pytest.mark.parametrize("portion", PORTIONS)
def test_there_are_as_many_hits_as_were_asked_for_or_match(portion: str, filtered: tuple[Snapshot, Vectors]) -> None:
    snapshot, rows = filtered
    only = parse_filter({portion: True})
    matching = alive(portion)
    assert bool(matching) == (portion != "none")
    assert snapshot.count(only) == len(matching)
    ids = names(FILTERED_ROWS)
    for top_k, query in itertools.product((1, 10, 100, 1000, 20_000), structured(3, rows.shape[1], 9)):
        found = ask(snapshot, query, top_k, filter=only)
        assert len(found) == len(set(found)) == min(top_k, len(matching))
        assert set(found) <= {ids[row] for row in matching}


@pytest.mark.parametrize("portion", ["one", "seven", "percent", "tenth", "half", "all"])
def test_a_filtered_search_finds_the_nearest_of_the_matching(portion: str, filtered: tuple[Snapshot, Vectors]) -> None:
    snapshot, rows = filtered
    matching, ids = alive(portion), names(FILTERED_ROWS)
    found, wanted = [], []
    for query in structured(20, rows.shape[1], 10):
        scores = true_scores("cosine", rows[matching], query)
        wanted.append(best(scores, [ids[row] for row in matching], 10))
        found.append(ask(snapshot, query, filter=parse_filter({portion: True})))
    assert all(wanted)
    assert recall(found, wanted) >= 0.99


def test_pages_join_to_one_large_page(filtered: tuple[Snapshot, Vectors]) -> None:
    snapshot, rows = filtered
    for query, only in itertools.product(structured(5, rows.shape[1], 11), (None, parse_filter({"tenth": True}))):
        pages = [ask(snapshot, query, 7, offset=start, filter=only) for start in range(0, 70, 7)]
        joined, large = list(itertools.chain(*pages)), ask(snapshot, query, 70, filter=only)
        if any(kinds(snapshot)):  # a later page looks at more candidates and may find what an earlier one missed
            assert recall([joined], [large]) >= 0.97
        else:
            assert joined == large


def test_a_page_behind_the_last_hit_is_empty(filtered: tuple[Snapshot, Vectors]) -> None:
    snapshot, rows = filtered
    assert ask(snapshot, rows[0], 10, offset=FILTERED_ROWS) == []
    assert len(ask(snapshot, rows[0], 10, offset=snapshot.chunks - 4)) == 4


def test_a_collection_without_documents_answers_nothing(tmp_path: Path) -> None:
    space = space_of("cosine", 4)
    fill(tmp_path, space, normal(10, 4))
    with Store(tmp_path).writer(NAME, spaces=[space]) as writer:
        writer.delete(names(10))
        writer.commit()
    snapshot = Store(tmp_path).open(NAME)
    assert (snapshot.documents, snapshot.chunks, snapshot.count(None)) == (0, 0, 0)
    assert ask(snapshot, np.ones(4)) == []


# -- ties on every path ------------------------------------------------------------------------------------


def with_duplicates(dimensions: int, copies: int, others: int) -> Vectors:
    """Structured rows of which the first is repeated, scattered over all places."""
    rows = structured(others + copies, dimensions)
    places = np.random.default_rng(12).permutation(len(rows))[:copies]
    rows[places] = rows[0]
    return rows


@pytest.mark.slow
@pytest.mark.usefixtures("quick_calibration")
@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize(("dimensions", "commits", "scans"), [(16, 1, False), (16, 4, False), (512, 1, True)])
def test_thousands_of_equal_rows_come_in_order_of_id(
    distance: Distance, dimensions: int, commits: int, scans: bool, tmp_path: Path
) -> None:
    rows = with_duplicates(dimensions, 1000, 5000 if scans else 1600)
    ids = shuffled(names(len(rows)))
    parity = [{"even": int(one[1:]) % 2 == 0, "rare": int(one[1:]) % 40 == 0} for one in ids]
    snapshot = fill(tmp_path, space_of(distance, dimensions), rows, ids, commits=commits, metadata=parity)
    assert kinds(snapshot) == [scans] * commits
    equal = sorted(one for one, row in zip(ids, rows, strict=True) if (row == rows[0]).all())
    assert len(equal) >= 1000
    for top_k in (1, 10, 800):
        assert ask(snapshot, rows[0], top_k) == equal[:top_k]
    even = [one for one in equal if int(one[1:]) % 2 == 0]
    assert ask(snapshot, rows[0], 10, filter=parse_filter({"even": True})) == even[:10]
    rare = [one for one in equal if int(one[1:]) % 40 == 0]
    assert ask(snapshot, rows[0], 10, filter=parse_filter({"rare": True})) == rare[:10]
    assert ask(snapshot, rows[0], 10, offset=5) == equal[5:15]


@pytest.mark.slow
@pytest.mark.usefixtures("quick_calibration")
def test_equal_rows_in_several_scanned_segments_come_in_order_of_id(tmp_path: Path) -> None:
    rows = with_duplicates(768, 2500, 2600)
    ids = shuffled(names(len(rows)))
    snapshot = fill(tmp_path, space_of("cosine", 768), rows, ids, commits=3, bulk=False)
    assert kinds(snapshot) == [True] * 3
    equal = sorted(one for one, row in zip(ids, rows, strict=True) if (row == rows[0]).all())
    assert ask(snapshot, rows[0], 100) == equal[:100]


@pytest.mark.slow
@pytest.mark.usefixtures("quick_calibration")
def test_equal_rows_in_an_exact_and_a_scanned_segment_come_in_order_of_id(tmp_path: Path) -> None:
    rows = with_duplicates(768, 800, 1200)
    ids = shuffled(names(len(rows)))
    space = space_of("cosine", 768)
    fill(tmp_path, space, rows[:1800], ids[:1800])
    with Store(tmp_path).writer(NAME, spaces=[space]) as writer:
        put(writer, ids[1800:], rows[1800:])
        writer.commit()
    snapshot = Store(tmp_path).open(NAME)
    assert kinds(snapshot) == [True, False]
    equal = sorted(one for one, row in zip(ids, rows, strict=True) if (row == rows[0]).all())
    assert ask(snapshot, rows[0], 50) == equal[:50]


# -- threads -----------------------------------------------------------------------------------------------


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Threads that take turns far more often than they do by default."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.slow
@pytest.mark.usefixtures("hasty_threads")
def test_threads_that_search_at_once_get_the_answers_of_one(filtered: tuple[Snapshot, Vectors]) -> None:
    snapshot, rows = filtered
    queries = structured(20, rows.shape[1], 17)
    # More filters than any cache holds, so that threads also fill and empty the caches at once.
    filters = [None, *(parse_filter({"half": True, "document_id": {"gte": one}}) for one in names(100))]
    jobs = [(queries[number % 20], filters[number % 101]) for number in range(202)]
    alone = [ask(snapshot, query, filter=only) for query, only in jobs]
    fresh = Store(snapshot_path(snapshot)).open(NAME)
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda job: ask(fresh, job[0], filter=job[1]), jobs))
    assert together == alone


def snapshot_path(snapshot: Snapshot) -> Path:
    """The store that a snapshot of these tests was opened from."""
    return snapshot.segments[0].segment._folder.parents[2]


# -- several queries at once -----------------------------------------------------------------------------------


def pairs(found: list[list[Hit]]) -> list[list[tuple[str, float]]]:
    return [[(hit.chunk.id, hit.score) for hit in hits] for hits in found]


@pytest.fixture(scope="module", params=[1, 5], ids="{}-commits".format)
def even_and_odd(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Snapshot, Vectors]:
    """2,400 scanned rows, of which every other one is even and the first 300 are deleted."""
    space, rows, path = space_of("cosine", 768), structured(2_400, 768), tmp_path_factory.mktemp("even")
    metadata = [{"even": number % 2 == 0} for number in range(len(rows))]
    with measured_quickly():
        fill(path, space, rows, commits=request.param, metadata=metadata)
        with Store(path).writer(NAME, spaces=[space]) as writer:
            writer.delete(names(300))
            writer.commit()
    snapshot = Store(path).open(NAME)
    assert any(kinds(snapshot)) and len(snapshot.segments) == request.param
    return snapshot, rows


@pytest.mark.slow
@pytest.mark.parametrize("filtered", [None, {"even": True}])
def test_queries_asked_together_find_what_each_finds_alone(
    even_and_odd: tuple[Snapshot, Vectors], filtered: Any
) -> None:
    snapshot, rows = even_and_odd
    space = snapshot.collection.spaces[0]
    only = None if filtered is None else parse_filter(filtered)
    for top_k, offset in ((10, 0), (50, 7)):
        queries = [Query(vector, space.id, top_k, offset, only) for vector in structured(9, 768, 4)]
        queries.append(replace(queries[0], vector=rows[1_000]))
        assert pairs(snapshot.search_all(queries)) == pairs([snapshot.search(query) for query in queries])


def test_queries_that_are_not_alike_may_be_asked_together(tmp_path: Path) -> None:
    space, rows = space_of("cosine", 8), normal(50, 8)
    snapshot = fill(tmp_path, space, rows)
    queries = [
        Query(rows[0], space.id, 3),
        Query(rows[1], space.id, 5),
        Query(None, None, text="d000004", mode="lexical"),
    ]
    assert pairs(snapshot.search_all(queries)) == pairs([snapshot.search(query) for query in queries])
    with pytest.raises(DimensionMismatch):
        snapshot.search_all([Query(rows[0], space.id, 3), Query(rows[0][:4], space.id, 3)])
