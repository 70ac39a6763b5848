"""One pass over the codes of a scan: how deep it goes, its bitmap, and the second thread that is lent to it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from aidre.engine.index.vectors import distance, quantizer, scan as passes
from aidre.engine.index.vectors.distance import spare_core
from aidre.engine.index.vectors.encoding import encode, encode_query
from aidre.engine.index.vectors.quantizer import row_blocks, train_codebook
from aidre.engine.index.vectors.scan import PreparedScan, ScanGroup, search_depth
from aidre.engine.index.vectors.vector_index import VectorIndex, index_to_batch, open_index
from aidre.engine.storage.manifest import Calibration, Depth
from tests.support.calibrations import quick_calibration  # noqa: F401
from tests.support.stores import (
    Vectors,
    ask,
    best,
    fill,
    names,
    recall,
    shuffled,
    space_of,
    structured,
    true_scores,
)

SPACE = space_of("cosine", 384)
ROWS = 3_000


@pytest.fixture
def short_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantizer, "MAX_FAISS_INDEX_ROWS", 500)
    monkeypatch.setattr(passes, "MIN_SHARED_ROWS", 2_000)
    monkeypatch.setattr(quantizer, "_BLOCK_ROWS", 125)


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distance, "_core_is_idle", lambda: True)


def scan_of(rows: Vectors) -> VectorIndex:
    codes = encode(SPACE, rows).codes
    indexes = quantizer.quantize_rows(train_codebook(SPACE, codes, 24), row_blocks(codes))
    batch = index_to_batch(indexes, "abc", len(codes))
    assert batch.num_rows == len(indexes) == -(-len(codes) // 500)
    return open_index(SPACE, batch, len(codes), "abc")


@pytest.mark.usefixtures("short_lists", "idle")
def test_a_pass_that_two_threads_share_finds_what_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = structured(2_750, 384)
    one = PreparedScan(ScanGroup([scan_of(rows)]))
    for query in encode(SPACE, rows[:10]).codes.astype(np.float32)[:, None]:
        with monkeypatch.context() as patched:
            patched.setattr(passes, "spare_core", nobody)
            alone = one.search(query, 2_750)
        shared = one.search(query, 2_750)
        assert sorted(shared[0].tolist()) == sorted(alone[0].tolist()) == list(range(2_750))
        assert (shared[1] == alone[1]).all()
        assert (one.search(query, 100)[1] == alone[1][:100]).all()


@contextmanager
def nobody() -> Iterator[None]:
    yield None


@pytest.mark.usefixtures("short_lists", "idle")
def test_a_shared_pass_keeps_to_its_bitmap() -> None:
    rows = structured(2_750, 384)
    allowed = np.random.default_rng(0).random(2_750) < 0.01
    allowed[:1_375] = False  # nothing for the first thread
    one = PreparedScan(ScanGroup([scan_of(rows)]), bitmap=distance.Bitmap(np.packbits(allowed, bitorder="little")))
    found, _ = one.search(encode_query(SPACE, rows[0]), int(allowed.sum()))
    assert sorted(found.tolist()) == np.flatnonzero(allowed).tolist()


@pytest.mark.usefixtures("idle")
def test_a_second_long_search_gets_no_thread_while_the_first_has_one() -> None:
    with spare_core() as first:
        assert isinstance(first, ThreadPoolExecutor)
        with spare_core() as second:
            assert second is None
    with spare_core() as third:
        assert third is first


@pytest.mark.parametrize(
    ("state", "spare"),
    [
        (b"0.5 0.4 0.3 1/99 7\n", True),
        (b"0.5 0.4 0.3 2/99 7\n", False),
        (b"9.5 0.4 0.3 12/99 7\n", False),
        (b"", False),
        (b"none", False),
    ],
)
def test_a_thread_is_lent_only_while_a_core_is_idle(state: bytes, spare: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr("os.pread", lambda *_: state)
    with spare_core() as helper:
        assert (helper is not None) == spare


@pytest.mark.slow
@pytest.mark.usefixtures("short_lists", "idle", "quick_calibration")
def test_a_store_of_long_lists_answers_as_brute_force_does(tmp_path: Path) -> None:
    space, rows, ids = space_of("cosine", 768), structured(ROWS, 768), shuffled(names(ROWS))
    snapshot = fill(tmp_path, space, rows, ids)
    assert len(snapshot.segments[0].segment.scans[space.id].quantized) == 6
    queries = rows[:: ROWS // 20]
    wanted = [best(true_scores("cosine", rows, query), ids, 10) for query in queries]
    assert recall([ask(snapshot, query) for query in queries], wanted) >= 0.98


@pytest.mark.parametrize(
    ("wanted", "depth"), [(1, 40), (10, 40), (100, 400), (31, None), (1000, 9000), (1001, None), (50_000, None)]
)
def test_a_depth_between_calibrated_ones_lies_between_them(wanted: int, depth: int | None) -> None:
    depths = tuple(Depth(*facts, 1.0, 1.0) for facts in ((10, 40), (100, 400), (1000, 9000)))
    reach = search_depth(Calibration("scan", 0.99, 10_000, 200, 12, depths), wanted)
    found = None if reach is None else reach.candidates
    if wanted == 31:
        assert found is not None
        assert 31 < found < 400
    else:
        assert found == depth


def test_an_exact_space_has_no_depth() -> None:
    assert search_depth(None, 10) is None
    assert search_depth(Calibration("exact", 0.99, 10, reason="small"), 10) is None
