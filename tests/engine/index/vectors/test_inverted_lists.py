"""Rows in the lists of their centroids: each row in two of them, and lists that are damaged are refused."""

from __future__ import annotations

from dataclasses import replace

import faiss
import numpy as np
import pytest

from aidre.engine.index.vectors.inverted_lists import InvertedLists
from aidre.engine.index.vectors.quantizer import (
    Quantized,
    centroids_of,
    quantize_rows,
    row_blocks,
    train_centroids,
    train_codebook,
    with_centroids,
)
from aidre.engine.index.vectors.scan import PreparedScan, ScanGroup
from aidre.engine.index.vectors.vector_index import (
    VectorIndex,
    index_to_batch,
    open_index,
)
from aidre.engine.model import Distance
from aidre.engine.storage.arrow import FileProblem
from tests.engine.index.vectors.vector_indexes import (
    DIMENSIONS,
    LISTS,
    ROWS,
    bits_of,
    codes_of,
    listed_index,
    probing,
    query_of,
)
from tests.support.stores import (
    DISTANCES,
    space_of,
    structured,
)


@pytest.mark.parametrize("distance", DISTANCES)
def test_every_row_stands_in_two_lists_and_is_found_once(distance: Distance) -> None:
    scan = listed_index(distance, structured(ROWS, DIMENSIONS))
    assert (scan.nlist, len(scan), scan.list_sizes[:LISTS].sum()) == (LISTS, ROWS, 2 * ROWS)
    assert (scan.assignments[0] != scan.assignments[1]).all()
    one = PreparedScan(ScanGroup([scan]))
    for reach in (None, probing(LISTS)):
        rows, near = one.search(query_of(distance), ROWS, reach)
        assert sorted(rows.tolist()) == list(range(ROWS))
        assert (near[:-1] >= near[1:]).all()


def test_all_rows_are_gone_over_as_one_list_and_those_of_few_lists_by_these() -> None:
    scan = listed_index("cosine", structured(ROWS, DIMENSIONS))
    whole = scan.covering_lists(None)
    assert scan.list_sizes[whole].tolist() == [ROWS]
    for few, expected in ((3, np.arange(LISTS, LISTS + 3)), (LISTS - 1, whole)):
        mask = scan.assignments[0] < few
        counts = scan.count_by_list(mask)
        assert scan.covering_lists(counts).tolist() == expected.tolist()
        found, near = PreparedScan(ScanGroup([scan]), None, bits_of(mask), [counts]).search(
            query_of("cosine"), int(mask.sum())
        )
        assert sorted(found.tolist()) == np.flatnonzero(mask).tolist()
        by_all = PreparedScan(ScanGroup([scan]), None, bits_of(mask)).search(query_of("cosine"), int(mask.sum()))
        assert near.tolist() == by_all[1].tolist()


# -- on disk -----------------------------------------------------------------------------------------------


def with_quantiser(lists: InvertedLists, how: str) -> InvertedLists:
    index = lists.codebook
    centroids = centroids_of(index)
    if how == "no numbers":
        centroids[3, 5] = np.nan
    coarse = faiss.IndexFlat(index.d, index.metric_type)
    if how == "of another kind":
        coarse = faiss.IndexHNSWFlat(index.d, 4)
    coarse.add(centroids[:-1] if how == "too few" else centroids)
    index.quantizer = coarse
    coarse.this.disown()
    return lists


def damaged(lists: InvertedLists, how: str) -> InvertedLists:
    rows, sizes = lists.rows.copy(), lists.list_sizes.copy()
    if how in ("no numbers", "too few", "of another kind"):
        return with_quantiser(lists, how)
    if how in ("more codes", "fewer codes", "more in all", "fewer in all"):
        name = "all_codes" if "all" in how else "codes"
        codes = getattr(lists, name)
        return replace(lists, **{name: codes[:-1] if "fewer" in how else np.concatenate([codes, codes[:64]])})
    if how == "twice":
        rows[0] = rows[1]
    elif how == "beyond":
        rows[-1] = ROWS
    elif how == "below":
        rows[-1] = -1
    elif how == "fewer rows":
        rows = rows[:-2]
    elif how == "fewer lists":
        sizes = sizes[:, :-1].copy()
    elif how == "less than none":
        sizes[:, 0] += [-sizes[0, 0] - 1, sizes[0, 0] + 1]
    elif how == "more firsts":
        sizes[:, 0] += [1, -1]
    else:
        sizes[0, :2] += [64, -64]
    return replace(lists, rows=rows, list_sizes=sizes)


@pytest.mark.parametrize(
    "how",
    [
        *("no numbers", "too few", "of another kind", "twice", "beyond", "below", "more codes", "fewer codes"),
        *("more in all", "fewer in all", "fewer rows", "fewer lists", "less than none", "more firsts", "moved"),
    ],
)
def test_damaged_lists_are_refused(how: str) -> None:
    scan = listed_index("dot", structured(ROWS, DIMENSIONS))
    batch = index_to_batch(Quantized((damaged(scan.quantized[0], how),)), "abc", 1500)
    with pytest.raises(FileProblem):
        open_index(scan.space, batch, ROWS, "abc")


def test_a_file_of_lists_without_all_of_their_members_is_refused() -> None:
    scan = listed_index("dot", structured(ROWS, DIMENSIONS))
    batch = index_to_batch(scan.quantized, "abc", 1500)
    with pytest.raises(FileProblem, match="does not match the vectors"):
        open_index(scan.space, batch.slice(0, 5), ROWS, "abc")


@pytest.mark.parametrize("rows", [1, 31, 128, 129, ROWS])
def test_lists_take_over_the_codes_of_an_index_without_lists(rows: int) -> None:
    space, stored = space_of("cosine", DIMENSIONS), codes_of("cosine", structured(ROWS, DIMENSIONS))
    trained = train_codebook(space, stored, 12)
    listed = with_centroids(space, trained, train_centroids(space, stored, LISTS))
    known = VectorIndex(space, quantize_rows(trained, row_blocks(stored[:rows]))).known_codes(listed)
    assert known is not None
    assert (known == trained.index.pq.compute_codes(stored[:rows].astype(np.float32))).all()
    taken, anew = (quantize_rows(listed, row_blocks(stored[:rows]), codes)[0] for codes in (known, None))
    for name in ("list_sizes", "rows", "codes", "all_codes"):
        assert (getattr(taken, name) == getattr(anew, name)).all()


def test_codes_of_another_codebook_are_not_taken_over() -> None:
    space, stored = space_of("cosine", DIMENSIONS), codes_of("cosine", structured(ROWS, DIMENSIONS))
    index = VectorIndex(space, quantize_rows(train_codebook(space, stored, 12), row_blocks(stored)))
    centroids = train_centroids(space, stored, LISTS)
    for other in (train_codebook(space, stored[:500], 12), train_codebook(space, stored, 24)):
        assert index.known_codes(with_centroids(space, other, centroids)) is None
    assert index.known_codes(index.codebook()) is None
