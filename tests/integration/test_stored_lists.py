"""Lists in stores: made where there are rows enough, as good as their target, through deletes, filters and ties."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import xxhash
from numpy.typing import NDArray

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.index.fields.filters import parse_filter
from aidre.engine.index.vectors import quantizer
from aidre.engine.index.vectors.scan import search_depth
from aidre.engine.model import Distance, Query
from aidre.engine.search import depth_choice, query_samples
from aidre.engine.search.plan import plan_for
from aidre.engine.storage.format import MANIFESTS, manifest_name
from aidre.engine.storage.manifest import Calibration
from tests.support.stores import (
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

STORED = 9_000
IDS = names(STORED)
ASKED = 60


def list_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists of few rows, wherever they are worth it or not."""
    monkeypatch.setattr(quantizer, "MIN_LISTED_ROWS", 6_000)
    monkeypatch.setattr(quantizer, "_TARGET_ROWS_PER_LIST", 64)
    monkeypatch.setattr(quantizer, "MIN_ROWS_PER_LIST", 32)
    monkeypatch.setattr(depth_choice, "MAX_PROBING_SHARE", math.inf)
    monkeypatch.setattr(query_samples, "_NOISE", 1.0)  # noisier mixtures need all of so few lists


@pytest.fixture
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    list_few_rows(monkeypatch)


class Listed(NamedTuple):
    """A collection with lists that no test changes; `luck` and `far` are numbers of its documents, from 0 to 1."""

    snapshot: Snapshot
    rows: Vectors
    luck: NDArray[np.float64]
    far: NDArray[np.float64]


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Listed:
    rows = structured(STORED, 384)
    far = np.argsort(np.argsort(np.linalg.norm(rows - rows[7], axis=1))) / STORED
    luck = np.random.default_rng(1).permutation(STORED) / STORED
    metadata = [{"luck": a, "far": b} for a, b in zip(luck.tolist(), far.tolist(), strict=True)]
    with pytest.MonkeyPatch.context() as monkeypatch:
        list_few_rows(monkeypatch)
        snapshot = fill(tmp_path_factory.mktemp("listed"), space_of("cosine", 384), rows, metadata=metadata)
    assert lists_of(snapshot) == [128]
    return Listed(snapshot, rows, luck, far)


def calibration_of(snapshot: Snapshot) -> Calibration:
    found = snapshot.manifest.spaces[0].calibration
    assert found is not None
    return found


def lists_of(snapshot: Snapshot) -> list[int]:
    return [scan.nlist for part in snapshot.segments for scan in part.segment.scans.values()]


def measured(snapshot: Snapshot, distance: Distance, rows: Vectors, ids: NDArray[np.str_], **members: Any) -> float:
    queries = structured(ASKED, rows.shape[1], 99)
    wanted = ids[nearest(distance, rows, queries, 10)].tolist()
    return recall([ask(snapshot, query, 10, **members) for query in queries], wanted)


@pytest.mark.slow
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
    assert all(depth.gap > 0 for depth in found.depths)
    assert measured(snapshot, distance, rows[:STORED], ids[:STORED]) >= 0.98
    with Store(tmp_path).writer(NAME, spaces=[space]) as writer:
        writer.delete(IDS[::3])
        put(writer, ids[STORED:].tolist(), rows[STORED:])
        writer.commit()
    snapshot = Store(tmp_path).open(NAME)
    assert lists_of(snapshot) == [128, 0]
    assert len(snapshot.segments.scan_groups(space.id)) == 1
    live = np.r_[np.setdiff1d(np.arange(STORED), np.arange(0, STORED, 3)), np.arange(STORED, STORED + 600)]
    assert measured(snapshot, distance, rows[live], ids[live]) >= 0.98
    with Store(tmp_path).writer(NAME, spaces=[space]) as writer:
        writer.compact()
    snapshot = Store(tmp_path).open(NAME)
    assert lists_of(snapshot) == [128]
    assert measured(snapshot, distance, rows[live], ids[live]) >= 0.98


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.usefixtures("early")
def test_a_space_whose_lists_do_not_pay_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depth_choice, "MAX_PROBING_SHARE", 0.0)
    rows = structured(STORED, 384)
    snapshot = fill(tmp_path, space_of("cosine", 384), rows)
    assert lists_of(snapshot) == [0]
    assert all((depth.probes, depth.gap) == (0, 0) for depth in calibration_of(snapshot).depths)
    assert measured(snapshot, "cosine", rows, np.array(IDS)) >= 0.98


@pytest.mark.slow
@pytest.mark.usefixtures("early")
def test_equal_rows_come_in_order_of_id(tmp_path: Path) -> None:
    rows = structured(STORED, 160)
    rows[::9] = rows[0]
    ids = shuffled(IDS)
    snapshot = fill(tmp_path, space_of("cosine", 160), rows, ids)
    assert lists_of(snapshot) == [128]
    for count in (10, 100, 1_000):
        equal = sorted(ids[row] for row in range(0, STORED, 9))
        assert ask(snapshot, rows[0], count) == equal[:count]


@pytest.mark.slow
@pytest.mark.usefixtures("early")
def test_answers_hold_no_chunk_twice_and_pages_join(listed: Listed) -> None:
    snapshot, rows = listed.snapshot, listed.rows
    space = snapshot.collection.spaces[0].id
    for query in structured(5, 384, 7):
        all_ = [hit.chunk.id for hit in snapshot.search(Query(query, space, 50))]
        assert len(set(all_)) == 50
    together = snapshot.search_all([Query(query, space, 10) for query in structured(5, 384, 7)])
    for query, hits in zip(structured(5, 384, 7), together, strict=True):
        assert [hit.chunk.document_id for hit in hits] == ask(snapshot, query)
    assert ask(snapshot, rows[77], 1) == best(true_scores("cosine", rows, rows[77]), IDS, 1)


@pytest.mark.slow
def test_a_manifest_that_says_nothing_of_lists_is_read_and_searched(tmp_path: Path) -> None:
    rows = structured(4_000, 384)
    before = fill(tmp_path, space_of("cosine", 384), rows)
    path = tmp_path / NAME / MANIFESTS / manifest_name(before.generation)
    written = path.read_bytes()
    body = written[written.index(b'"body":') + 7 : written.rindex(b"}")].replace(b',"probes":0,"gap":0.0', b"")
    path.write_bytes(b'{"checksum":"%s","body":%s}\n' % (xxhash.xxh3_128_hexdigest(body).encode(), body))
    assert b"probes" not in path.read_bytes()
    snapshot = Store(tmp_path).open(NAME)
    assert calibration_of(snapshot) == calibration_of(before)
    assert calibration_of(snapshot).kind == "scan"
    assert ask(snapshot, rows[5]) == ask(before, rows[5])


# -- filters -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("early")
@pytest.mark.parametrize("share", [0.5, 0.1, 0.01])
def test_filtered_recall_reaches_the_target_from_inside_and_outside(share: float, listed: Listed) -> None:
    snapshot, rows, luck, far = listed
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
    reach = search_depth(calibration_of(snapshot), 10)
    assert reach is not None
    assert plan_for(snapshot.segments, snapshot.collection.spaces[0].id, reach.candidates, None).scans
