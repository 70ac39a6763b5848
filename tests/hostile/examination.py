"""Whether a collection is one of the states that it may be in: every document, and everything derived from them.

Nothing of the engine's own is believed: texts, vectors, neighbours and counts are computed from ids and versions.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import faiss
import numpy as np
from numpy.typing import NDArray

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.index.fields.filters import parse_filter
from aidre.engine.index.vectors.encoding import encode
from aidre.engine.index.vectors.quantizer import quantize_rows, row_blocks
from aidre.engine.maintenance.verify import verify
from aidre.engine.model import Query
from aidre.engine.segment.view import SegmentView
from tests.hostile.steps import Shape, State, Step, mark, text_of, vectors_of, write_all
from tests.support.stores import NAME, nearest

ASKED = 12
RESULTS = 10


@dataclass(frozen=True, slots=True)
class Examined:
    """Which of the allowed states was found; the recall of each query that a scan answered, and what was promised."""

    state: int
    recalls: tuple[float, ...]
    promised: float | None
    segments: int
    rows_in_indexes: int


def examine(store: Path, shape: Shape, allowed: Sequence[State], again: Sequence[Step] = ()) -> Examined:
    """Examine a store that was left behind; then do the interrupted steps again, and examine what that comes to."""
    found = look(store, shape, allowed)
    if again:
        write_all(store, shape, again)
        look(store, shape, [allowed[-1]])
    return found


def look(store: Path, shape: Shape, allowed: Sequence[State]) -> Examined:
    """AssertionError where the store is in none of the states, or anything in it contradicts the documents."""
    if NAME not in Store(store).collections():
        assert {} in allowed, "the collection is gone"
        return Examined(list(allowed).index({}), (), None, 0, 0)
    (report,) = verify(Store(store))
    assert report.problems == (), report.problems
    snapshot = Store(store).open(NAME)
    assert snapshot.warnings == (), snapshot.warnings
    documents = _documents(snapshot)
    assert documents in allowed, _differences(documents, allowed)
    assert snapshot.documents == snapshot.chunks == report.documents == len(documents)
    _check_rows(snapshot, shape, documents)
    recalls, promised = _recalls(snapshot, shape, documents)
    rows = sum(len(scan) for part in snapshot.segments for scan in part.segment.scans.values())
    return Examined(list(allowed).index(documents), recalls, promised, len(snapshot.segments), rows)


def _documents(snapshot: Snapshot) -> dict[str, int]:
    """The live documents as the columns have them; none twice."""
    live = [each for part in snapshot.segments for each in _live(part)]
    assert len(dict(live)) == len(live), "a document is live twice"
    return dict(live)


def _live(part: SegmentView) -> list[tuple[str, int]]:
    found = []
    for row in part.live.rows().tolist():
        chunk = part.segment.chunks.bytes("id")[row].decode()
        text = part.segment.chunks.bytes("text")[row].decode()
        found.append((chunk.removesuffix("#chunk_1"), int(text.split(":")[0].split()[-1])))
    return found


def _differences(documents: State, allowed: Sequence[State]) -> str:
    said = []
    for state in allowed:
        differing = [one for one in {*documents, *state} if documents.get(one) != state.get(one)]
        shown = [f"{one}: {documents.get(one)} instead of {state.get(one)}" for one in sorted(differing)[:5]]
        said.append(f"{len(differing)} documents differ, {', '.join(shown)}")
    return "in none of the allowed states: " + "; or ".join(said)


def _check_rows(snapshot: Snapshot, shape: Shape, documents: State) -> None:
    """Vectors, look-ups, words and fields say the same as the texts."""
    chance = random.Random(len(documents))
    for part in snapshot.segments:
        _check_part(part, shape)
    for one in shape.ids():
        chunk = snapshot.get(f"{one}#chunk_1")
        assert (chunk.text if chunk else None) == (text_of(one, documents[one]) if one in documents else None), one
    for one in chance.sample(sorted(documents), min(len(documents), ASKED)):
        words = Query(None, None, text=mark(one, documents[one]), mode="lexical")
        assert [hit.chunk.document_id for hit in snapshot.search(words)] == [one]
        assert snapshot.search(Query(None, None, text=mark(one, documents[one] + 1), mode="lexical")) == []
    half = shape.documents // 2
    counted = snapshot.count(parse_filter({"number": {"lt": half}}))
    assert counted == sum(int(one[1:]) < half for one in documents)


def _check_part(part: SegmentView, shape: Shape) -> None:
    column = part.segment.columns[shape.space.id]
    live = _live(part)
    expected = encode(shape.space, vectors_of(shape, live)).codes
    assert np.array_equal(column.codes[part.live.rows()], expected), "vectors are not those of their texts"
    for scan in part.segment.scans.values():
        assert len(scan) == part.segment.entry.chunks, "rows in the index are not the rows of the column"
        anew = quantize_rows(scan.codebook(), row_blocks(column.codes))
        for old, new in zip(scan.quantized, anew, strict=True):
            assert np.array_equal(_codes(old), _codes(new)), "the codes are not those of the column"


def _codes(index: faiss.Index) -> NDArray[np.uint8]:
    lists = index.invlists
    size = lists.list_size(0)
    blocks = -(-size // index.bbs)
    codes: NDArray[np.uint8] = faiss.rev_swig_ptr(lists.get_codes(0), blocks * index.bbs * index.M2 // 2)
    return codes


def _recalls(snapshot: Snapshot, shape: Shape, documents: State) -> tuple[tuple[float, ...], float | None]:
    """Recall at ten of every query that goes over codes, and the mean that the calibration promises."""
    calibration = snapshot.space(shape.space.id).calibration
    if calibration is None or calibration.kind != "scan" or len(documents) <= RESULTS:
        return (), None
    chance = random.Random(snapshot.generation)
    live = sorted(documents.items())
    rows = vectors_of(shape, live)
    asked = vectors_of(shape, [(one, 1 << 20) for one, _ in chance.sample(live, min(len(live), ASKED))])
    recalls = []
    for query, wanted in zip(asked, nearest("cosine", rows, asked, RESULTS), strict=True):
        hits = snapshot.search(Query(query, shape.space.id, RESULTS))
        true = {live[row][0] for row in wanted.tolist()}
        recalls.append(len(true & {hit.chunk.document_id for hit in hits}) / RESULTS)
    (promised,) = [depth.mean for depth in calibration.depths if depth.results == RESULTS]
    return tuple(recalls), promised
