"""Words and vectors in one call of the kernel, against numpy that scores every chunk: the same hits and scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.index.fields.filters import parse_filter
from aidre.engine.model import Fusion
from aidre.engine.native import native
from aidre.engine.search import bm25, hybrid, search_lexical
from aidre.engine.search.bm25 import Statistics
from aidre.engine.search.hybrid import HybridQuery
from aidre.engine.segment.view import Segments, TopK
from tests.support.fused import word
from tests.support.stores import NAME, normal, put, record, space_of

pytestmark = pytest.mark.skipif(native is None, reason="the C kernel was not built here")
_SPACE = space_of("cosine", 16)
_CODES = ("XK-4471", "2024-03-07", "v1.2.3", "/srv/data/x9", "AB12")
_WEIGHTS = {"de": 0.2}


def _snapshot(path: Path, seed: int) -> Snapshot:
    """English and German chunks with common and rare words and with codes, in several segments, some deleted."""
    random = np.random.default_rng(seed)
    count = int(random.choice([40, 300, 700]))
    records = []
    for number in range(count):
        chosen = [word(min(40, int(place))) for place in random.zipf(1.4, int(random.integers(0, 30)))]
        chosen += [str(random.choice(_CODES))] * int(random.random() < 0.1)
        text = " ".join([*chosen, "text"])
        records.append(
            record(f"d{number:03d}", [text], metadata={"third": number % 3, "lang": ("en", "de")[number % 5 == 0]})
        )
    vectors = normal(count, 16, seed=seed)[random.integers(0, count, count)]
    with Store(path).writer(NAME, spaces=[_SPACE]) as writer:
        for part in np.array_split(np.arange(count), int(random.integers(1, 5))):
            put(writer, [records[place] for place in part.tolist()], vectors[part])
            writer.commit()
        writer.delete([one.document.id for one in records[:: int(random.integers(3, 9))]])
        writer.commit()
    return Store(path).open(NAME)


def _same(found: TopK, plain: TopK) -> None:
    assert found.scores == pytest.approx(plain.scores, abs=1e-6, rel=0)
    places = dict(zip(zip(plain.segment_ords.tolist(), plain.rows.tolist(), strict=True), plain.scores, strict=True))
    for segment_ord, row, score in zip(found.segment_ords.tolist(), found.rows.tolist(), found.scores, strict=True):
        # The last ones may have equals that rounding put before them in one of the two.
        assert places.get((segment_ord, row), plain.scores[-1]) == pytest.approx(score, abs=1e-6)


@pytest.mark.parametrize("seed", range(8))
def test_the_kernel_finds_what_numpy_finds(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hybrid, "MIN_NEIGHBOURS", 8)
    random, snapshot = np.random.default_rng(seed), _snapshot(tmp_path, seed)
    statistics, plain = Statistics(snapshot.segments), Statistics(snapshot.segments)
    monkeypatch.setattr(plain, "native", None)
    compared = Segments.native_columns
    for number in range(6):
        drawn = [word(place) for place in random.integers(1, 40, int(random.integers(1, 6))).tolist()]
        text = " ".join([*drawn, *random.choice(_CODES, number % 3).tolist()])
        only = parse_filter({"third": 1}) if number % 2 else None
        vector = normal(1, 16, seed=seed * 10 + number)
        fusion, k = Fusion(float(random.choice([0.1, 0.5, 0.9]))), int(random.choice([1, 10, 40]))
        rankings = []
        for used in (statistics, plain):
            is_native = used is statistics
            monkeypatch.setattr(Segments, "native_columns", compared if is_native else lambda *_: None)
            query = HybridQuery(snapshot.segments, used, text, fusion, only).weighed(_WEIGHTS, 0.1 * (number % 2))
            ranked = query.search(_SPACE, vector, k=k, depth_for=lambda _: None)
            again = query.with_feedback(ranked, _SPACE, vector)
            words = search_lexical(snapshot.segments, used, text, k=k, filter=only)
            scorer = bm25.Bm25Scorer(snapshot.segments, used, text, delta=bm25.DELTA)
            rankings.append(
                (
                    ranked,
                    again,
                    words,
                    TopK(ranked.segment_ords, ranked.rows, scorer.score(ranked.segment_ords, ranked.rows)),
                )
            )
        for found, expected in zip(*rankings, strict=True):
            assert len(found.rows) == len(expected.rows)
            _same(found, expected)
