"""Scans with centroids: what the nearest lists hold, what they leave out, and when there are any."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
import xxhash
from building import (
    DISTANCES,
    NAME,
    Vectors,
    ask,
    best,
    fill,
    names,
    nearest,
    put,
    recall,
    shuffled,
    space_of,
    structured,
    true_scores,
)
from numpy.typing import NDArray

from aidre.engine import calibration, codebook, kernel, passes
from aidre.engine.arrow import FileProblem
from aidre.engine.codebook import blocks_of, centroids_of, learned, one_list, train, with_centroids
from aidre.engine.filters import parse_filter
from aidre.engine.index import Scan, codebook_text, encoded_batch, index_batch, open_scan
from aidre.engine.kernel import Bits
from aidre.engine.manifest import Calibration, Depth
from aidre.engine.model import Distance, Query
from aidre.engine.passes import Pass, Sweep
from aidre.engine.plan import plan_for
from aidre.engine.reach import Reach, reach_for
from aidre.engine.schema import MANIFESTS, SEGMENT_ROWS, manifest_name
from aidre.engine.snapshot import Snapshot
from aidre.engine.store import Store
from aidre.engine.vectors import encode, encode_query

DIMENSIONS, LISTS, ROWS = 48, 32, 3_000


def codes_of(distance: Distance, rows: Vectors) -> NDArray[Any]:
    return encode(space_of(distance, rows.shape[1]), rows).codes


def scan_of(distance: Distance, rows: Vectors, code_size: int = 12) -> Scan:
    space, codes = space_of(distance, rows.shape[1]), codes_of(distance, rows)
    listed = with_centroids(space, train(space, codes, code_size), learned(space, codes, LISTS))
    return Scan(space, codebook.fill(listed, blocks_of(codes)))


def query_of(distance: Distance, seed: int = 1) -> Vectors:
    return encode_query(space_of(distance, DIMENSIONS), structured(1, DIMENSIONS, seed)[0])


def probing(probes: int) -> Reach:
    return Reach(100, 10, (Depth(10, 100, 1.0, 1.0, probes), Depth(1000, 5_000, 1.0, 1.0, 2 * probes)))


@pytest.mark.parametrize("distance", DISTANCES)
def test_every_row_stands_in_two_lists_and_is_found_once(distance: Distance) -> None:
    scan = scan_of(distance, structured(ROWS, DIMENSIONS))
    assert (scan.lists, len(scan), scan.sizes.sum()) == (LISTS, ROWS, 2 * ROWS)
    assert (scan.places[0] != scan.places[1]).all()
    one = Pass(Sweep([scan]))
    for reach in (None, probing(LISTS)):
        rows, near = one.search(query_of(distance), ROWS, reach)
        assert sorted(rows.tolist()) == list(range(ROWS))
        assert (near[:-1] >= near[1:]).all()


@pytest.mark.parametrize("distance", DISTANCES)
def test_the_nearest_lists_hold_most_of_the_nearest_rows_as_close_as_they_are(distance: Distance) -> None:
    one = Pass(Sweep([scan_of(distance, structured(ROWS, DIMENSIONS))]))
    shares = []
    for seed in range(1, 20):
        rows, near = one.search(query_of(distance, seed), ROWS)
        seeming = np.empty(ROWS, np.float32)
        seeming[rows] = near
        some, closeness = one.search(query_of(distance, seed), 100, probing(8))
        assert len(set(some.tolist())) == len(some) == 100
        assert (closeness == seeming[some]).all()
        shares.append(len(set(some[:10].tolist()) & set(rows[:10].tolist())) / 10)
    assert np.mean(shares) > 0.9


def test_lists_that_hold_too_few_rows_are_not_all_that_is_searched() -> None:
    one = Pass(Sweep([scan_of("cosine", structured(ROWS, DIMENSIONS))]))
    rows, _ = one.search(query_of("cosine"), 2_000, probing(1))
    assert len(set(rows.tolist())) == 2_000


def test_a_bitmap_lets_through_the_same_rows_from_lists() -> None:
    scan = scan_of("cosine", structured(ROWS, DIMENSIONS))
    mask = np.random.default_rng(0).random(ROWS) < 0.3
    counts = scan.counts(mask)
    assert counts is not None
    assert counts.sum() == mask.sum()
    one = Pass(Sweep([scan]), None, Bits(np.packbits(mask, bitorder="little")), [counts])
    for reach, count in ((None, int(mask.sum())), (probing(4), 50), (probing(0), 50)):
        rows, _ = one.search(query_of("cosine"), count, reach)
        assert len(set(rows.tolist())) == count
        assert mask[rows].all()


def test_rows_far_from_the_query_are_found_where_only_they_are_allowed() -> None:
    rows = structured(ROWS, DIMENSIONS)
    scan, query = scan_of("cosine", rows), query_of("cosine")
    places = scan.router.search(query, LISTS, None)[0]
    mask = np.isin(scan.places[0], places[LISTS // 2 :])
    one = Pass(Sweep([scan]), None, Bits(np.packbits(mask, bitorder="little")), [scan.counts(mask)])
    found, _ = one.search(query, 20, probing(8))
    whole, _ = one.search(query, 20)
    assert found.tolist() == whole.tolist()
    assert mask[found].all()


def test_several_queries_each_have_their_own_lists() -> None:
    one = Pass(Sweep([scan_of("cosine", structured(ROWS, DIMENSIONS))]))
    queries = np.concatenate([query_of("cosine", seed) for seed in range(5)])
    found = one.search_all(queries, 50, probing(4))
    for place, (rows, near) in enumerate(found):
        alone = one.search(queries[place : place + 1], 50, probing(4))
        assert rows.tolist() == alone[0].tolist()
        assert near.tolist() == alone[1].tolist()


def test_two_threads_find_what_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    scan = scan_of("cosine", structured(ROWS, DIMENSIONS))
    alone = Pass(Sweep([scan])).search(query_of("cosine"), 100, probing(8))
    monkeypatch.setattr(passes, "SHARED_ROWS", 500)
    monkeypatch.setattr(kernel, "_core_is_idle", lambda: True)
    shared = Pass(Sweep([scan])).search(query_of("cosine"), 100, probing(8))
    assert shared[1].tolist() == alone[1].tolist()
    assert len(set(shared[0].tolist())) == 100


def test_a_small_segment_is_one_list_and_is_gone_over_with_the_others() -> None:
    rows = structured(ROWS, DIMENSIONS)
    large = scan_of("cosine", rows[200:])
    small = Scan(large.space, codebook.fill(one_list(large.codebook()), blocks_of(codes_of("cosine", rows[:200]))))
    other = scan_of("cosine", structured(ROWS, DIMENSIONS, 9))
    assert sorted(map(len, passes.together([small, other, large]))) == [1, 2]
    large.number(1)
    small.number(0)
    found, _ = Pass(Sweep([large, small])).search(query_of("cosine"), 400, probing(1))
    near = {number for number in found.tolist() if number < SEGMENT_ROWS}
    assert near
    assert len(set(found.tolist())) == 400


# -- on disk -----------------------------------------------------------------------------------------------


def test_lists_come_back_from_disk_as_they_were() -> None:
    scan = scan_of("euclidean", structured(ROWS, DIMENSIONS))
    opened = open_scan(scan.space, index_batch(scan.indexes, "abc", 1500), ROWS, "abc")
    assert opened.codebook_key == scan.codebook_key
    assert (opened.places == scan.places).all()
    found = [Pass(Sweep([one])).search(query_of("euclidean"), 100, probing(4))[0].tolist() for one in (opened, scan)]
    assert found[0] == found[1]


@pytest.mark.parametrize("distance", DISTANCES)
def test_a_codebook_with_centroids_travels_as_text(distance: Distance) -> None:
    rows = structured(ROWS, DIMENSIONS)
    scan = scan_of(distance, rows)
    batch = encoded_batch(codes_of(distance, rows), codebook_text(scan), "abc", 1500)
    sent = open_scan(scan.space, batch, ROWS, "abc")
    assert sent.codebook_key == scan.codebook_key
    assert (sent.places == scan.places).all()
    few = encoded_batch(codes_of(distance, rows[:300]), codebook_text(sent), "abc", 1500)
    assert (small := open_scan(scan.space, few, 300, "abc")).lists == 0
    assert small.codes_key == scan.codes_key


def damaged(scan: Scan, how: str) -> Scan:
    index = scan.indexes[0]
    if how == "no numbers":
        centroids = centroids_of(index)
        centroids[3, 5] = np.nan
        coarse = faiss.IndexFlat(index.d, index.metric_type)
        coarse.add(centroids)
    elif how == "too few":
        coarse = faiss.IndexFlat(index.d, index.metric_type)
        coarse.add(centroids_of(index)[:-1])
    elif how == "of another kind":
        coarse = faiss.IndexHNSWFlat(index.d, 4)
    else:
        coarse = faiss.clone_index(faiss.downcast_index(index.quantizer))
    index.quantizer = coarse
    coarse.this.disown()
    lists = [one for one in scan._ids if len(one) > 1]
    if how == "twice":
        lists[0][0] = lists[0][1]
    elif how == "beyond":
        lists[-1][0] = ROWS
    elif how == "below":
        lists[-1][0] = -1
    return scan


@pytest.mark.parametrize("how", ["no numbers", "too few", "of another kind", "twice", "beyond", "below"])
def test_damaged_lists_are_refused(how: str) -> None:
    scan = damaged(scan_of("dot", structured(ROWS, DIMENSIONS)), how)
    with pytest.raises(FileProblem):
        open_scan(scan.space, index_batch(scan.indexes, "abc", 1500), ROWS, "abc")


# -- stores ------------------------------------------------------------------------------------------------

STORED = 9_000
IDS = names(STORED)
ASKED = 60


@pytest.fixture
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists of few rows, wherever they are worth it or not."""
    monkeypatch.setattr(codebook, "LISTED_ROWS", 6_000)
    monkeypatch.setattr(codebook, "_AIMED_ROWS", 64)
    monkeypatch.setattr(codebook, "ROWS_A_LIST", 32)
    monkeypatch.setattr(calibration, "MOST_PROBED", 1.0)


def calibration_of(snapshot: Snapshot) -> Calibration:
    found = snapshot.manifest.spaces[0].calibration
    assert found is not None
    return found


def lists_of(snapshot: Snapshot) -> list[int]:
    return [scan.lists for part in snapshot.parts for scan in part.segment.scans.values()]


def measured(snapshot: Snapshot, distance: Distance, rows: Vectors, ids: NDArray[np.str_], **members: Any) -> float:
    queries = structured(ASKED, rows.shape[1], 99)
    wanted = ids[nearest(distance, rows, queries, 10)].tolist()
    return recall([ask(snapshot, query, 10, **members) for query in queries], wanted)


@pytest.mark.usefixtures("early")
@pytest.mark.parametrize(("distance", "dimensions"), [("cosine", 384), ("dot", 160), ("euclidean", 160)])
def test_recall_reaches_the_target_as_committed_deleted_from_grown_and_compacted(
    distance: Distance, dimensions: int, tmp_path: Path
) -> None:
    space, rows = space_of(distance, dimensions), structured(STORED + 600, dimensions)
    ids = np.array(names(STORED + 600))
    snapshot = fill(tmp_path, space, rows[:STORED])
    assert lists_of(snapshot) == [128]
    found = calibration_of(snapshot)
    assert found.kind == "scan"
    assert all(0 < depth.probes < 128 for depth in found.depths)
    assert measured(snapshot, distance, rows[:STORED], ids[:STORED]) >= 0.98
    with Store(tmp_path).writer(NAME, spaces=[space]) as writer:
        writer.delete(IDS[::3])
        put(writer, ids[STORED:].tolist(), rows[STORED:])
        writer.commit()
    snapshot = Store(tmp_path).open(NAME)
    assert lists_of(snapshot) == [128, 0]
    assert len(snapshot.parts.sweeps(space.id)) == 1
    live = np.r_[np.setdiff1d(np.arange(STORED), np.arange(0, STORED, 3)), np.arange(STORED, STORED + 600)]
    assert measured(snapshot, distance, rows[live], ids[live]) >= 0.98
    with Store(tmp_path).writer(NAME, spaces=[space]) as writer:
        writer.compact()
    snapshot = Store(tmp_path).open(NAME)
    assert lists_of(snapshot) == [128]
    assert measured(snapshot, distance, rows[live], ids[live]) >= 0.98


@pytest.mark.usefixtures("early")
def test_lists_are_made_when_there_are_rows_enough(tmp_path: Path) -> None:
    space, rows = space_of("cosine", 384), structured(STORED, 384)
    with Store(tmp_path).writer(NAME, spaces=[space]) as writer:
        for start in range(0, STORED, 4_500):
            put(writer, IDS[start : start + 4_500], rows[start : start + 4_500])
            writer.commit()
            writer.finish()
        assert writer.snapshot is not None
        assert lists_of(writer.snapshot) == [0, 0]
        writer.compact()
    assert lists_of(Store(tmp_path).open(NAME)) == [128]


@pytest.mark.usefixtures("early")
def test_a_space_whose_lists_do_not_pay_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "MOST_PROBED", 0.0)
    rows = structured(STORED, 384)
    snapshot = fill(tmp_path, space_of("cosine", 384), rows)
    assert lists_of(snapshot) == [0]
    assert all(depth.probes == 0 for depth in calibration_of(snapshot).depths)
    assert measured(snapshot, "cosine", rows, np.array(IDS)) >= 0.98


@pytest.mark.usefixtures("early")
def test_equal_rows_come_in_order_of_id(tmp_path: Path) -> None:
    rows = structured(STORED, 384)
    rows[::9] = rows[0]
    ids = shuffled(IDS)
    snapshot = fill(tmp_path, space_of("cosine", 384), rows, ids)
    assert lists_of(snapshot) == [128]
    for count in (10, 100, 1_000):
        equal = sorted(ids[row] for row in range(0, STORED, 9))
        assert ask(snapshot, rows[0], count) == equal[:count]


@pytest.mark.usefixtures("early")
def test_answers_hold_no_chunk_twice_and_pages_join(tmp_path: Path) -> None:
    rows = structured(STORED, 384)
    snapshot = fill(tmp_path, space_of("cosine", 384), rows)
    space = snapshot.collection.spaces[0].id
    for query in structured(5, 384, 7):
        all_ = [hit.chunk.id for hit in snapshot.search(Query(query, space, 50))]
        assert len(set(all_)) == 50
    together = snapshot.search_all([Query(query, space, 10) for query in structured(5, 384, 7)])
    for query, hits in zip(structured(5, 384, 7), together, strict=True):
        assert [hit.chunk.document_id for hit in hits] == ask(snapshot, query)
    assert ask(snapshot, rows[77], 1) == best(true_scores("cosine", rows, rows[77]), IDS, 1)


def test_a_manifest_that_says_nothing_of_lists_is_read_and_searched(tmp_path: Path) -> None:
    rows = structured(STORED, 384)
    before = fill(tmp_path, space_of("cosine", 384), rows)
    path = tmp_path / NAME / MANIFESTS / manifest_name(before.generation)
    written = path.read_bytes()
    body = written[written.index(b'"body":') + 7 : written.rindex(b"}")].replace(b',"probes":0', b"")
    path.write_bytes(b'{"checksum":"%s","body":%s}\n' % (xxhash.xxh3_128_hexdigest(body).encode(), body))
    assert b"probes" not in path.read_bytes()
    snapshot = Store(tmp_path).open(NAME)
    assert calibration_of(snapshot) == calibration_of(before)
    assert ask(snapshot, rows[5]) == ask(before, rows[5])


# -- filters -----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("early")
@pytest.mark.parametrize("share", [0.5, 0.1, 0.01])
def test_filtered_recall_reaches_the_target_from_inside_and_outside(share: float, tmp_path: Path) -> None:
    rows = structured(STORED, 384)
    far = np.argsort(np.argsort(np.linalg.norm(rows - rows[7], axis=1))) / STORED
    luck = np.random.default_rng(1).permutation(STORED) / STORED
    metadata = [{"luck": a, "far": b} for a, b in zip(luck.tolist(), far.tolist(), strict=True)]
    snapshot = fill(tmp_path, space_of("cosine", 384), rows, metadata=metadata)
    assert lists_of(snapshot) == [128]
    pool = structured(400, 384, 99)
    by_distance = pool[np.argsort(np.linalg.norm(pool - rows[7], axis=1))]
    for field, values, queries in (
        ("luck", luck, pool[:ASKED]),
        ("far", far, by_distance[:ASKED]),
        ("far", far, by_distance[-ASKED:]),
    ):
        matching = np.flatnonzero(values < share)
        only = parse_filter({field: {"lt": share}})
        wanted = np.array(IDS)[matching][nearest("cosine", rows[matching], queries, 10)].tolist()
        assert recall([ask(snapshot, query, filter=only) for query in queries], wanted) >= 0.98
    reach = reach_for(calibration_of(snapshot), 10)
    assert reach is not None
    assert plan_for(snapshot.parts, snapshot.collection.spaces[0].id, reach.candidates, None).passes


def test_more_lists_are_gone_over_where_fewer_rows_are_allowed() -> None:
    reach = probing(10)
    assert [reach.probes(share) for share in (1.0, 0.1, 0.01, 0.001, 0.0)] == [10, 15, 20, 0, 0]
    assert Reach(100).probes() == 0
