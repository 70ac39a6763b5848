"""Calibration with queries of users: a generation of its own, deeper where they need it, and not forgotten."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from aidre.engine.collection.store import Store
from aidre.engine.errors import DimensionMismatch, InvalidInput, InvalidVector, SpaceMissing
from aidre.engine.maintenance import recalibration
from aidre.engine.maintenance.recalibration import Recalibration, measure_recall, recalibrate
from aidre.engine.storage.manifest import Calibration
from tests.support.calibrations import measured_quickly
from tests.support.stores import NAME, Vectors, copied, fill, names, normal, put, space_of, structured

SPACE = space_of("cosine", 384)
ROWS = 3_400


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("recalibration")
    with measured_quickly():
        fill(path, SPACE, structured(ROWS, SPACE.dimensions))
    return path


@pytest.fixture
def store(stored: Path, tmp_path: Path) -> Store:
    return Store(copied(stored, tmp_path / "store"))


def given_to(store: Store, queries: Vectors, space_id: str = SPACE.id) -> Recalibration:
    return recalibrate(store, NAME, space_id, queries)


def calibration_of(store: Store) -> Calibration:
    found = store.open(NAME).space(SPACE.id).calibration
    assert found is not None
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("quick_calibration")
def test_queries_that_need_more_make_the_search_deeper_or_exact_in_a_new_generation(store: Store) -> None:
    before = store.open(NAME)
    result = given_to(store, normal(100, SPACE.dimensions))
    after = store.open(NAME)
    assert result.generation == after.generation == before.generation + 1
    assert (result.before, result.after) == (before.space(SPACE.id).calibration, after.space(SPACE.id).calibration)
    assert result.before is not None
    assert result.before.kind == "scan"
    assert result.found_after >= result.found_before
    [known, *_] = result.after.learned
    assert (known.kind, known.results) == ("given", 10)
    if result.after.kind == "scan":
        assert result.after.depths[0].mean <= result.found_after + 0.01
        old, new = (depths[0].candidates for depths in (result.before.depths, result.after.depths))
        assert (new, result.after.code_size) > (old, result.before.code_size) or new > old
    else:
        assert result.found_after == 1
    assert after.chunks == before.chunks


@pytest.mark.slow
@pytest.mark.usefixtures("quick_calibration")
def test_what_was_learned_survives_merges_and_compaction(store: Store) -> None:
    learned = given_to(store, normal(100, SPACE.dimensions)).after.learned
    assert learned
    with store.writer(NAME, spaces=None) as writer:
        put(writer, names(40, ROWS), structured(40, SPACE.dimensions))
        writer.commit()
        writer.compact()
    assert calibration_of(store).learned == learned
    assert calibration_of(store).rows == ROWS + 40


@pytest.mark.usefixtures("quick_calibration")
def test_of_many_queries_some_are_measured_and_those_like_the_rows_change_little(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recalibration, "MAX_GIVEN_QUERIES", 60)
    result = given_to(store, structured(150, SPACE.dimensions, 3))
    assert result.queries == 60
    assert result.after.kind == "scan"
    assert result.found_after >= 0.99


def test_a_small_space_stays_exact(tmp_path: Path) -> None:
    fill(tmp_path, SPACE, structured(50, SPACE.dimensions))
    result = given_to(Store(tmp_path), normal(5, SPACE.dimensions))
    assert (result.after.kind, result.found_before, result.found_after) == ("exact", 1, 1)


def test_recall_is_that_of_the_calibrated_search(store: Store) -> None:
    snapshot = store.open(NAME)
    assert measure_recall(snapshot, SPACE.id, structured(20, SPACE.dimensions, 9).astype(np.float32)) > 0.9


def test_unusable_queries_are_refused_and_change_nothing(store: Store) -> None:
    good = normal(3, SPACE.dimensions)
    bad = good.copy()
    bad[1, 5] = np.nan
    generation = store.current(NAME)
    with pytest.raises(InvalidVector, match=r"query 2: .* is not finite"):
        given_to(store, bad)
    with pytest.raises(InvalidVector, match="query 1: "):
        given_to(store, good * 0)
    with pytest.raises(DimensionMismatch):
        given_to(store, good[:, :5])
    with pytest.raises(InvalidInput, match="there are no queries"):
        given_to(store, good[:0])
    with pytest.raises(SpaceMissing, match="no embedding space 'other'"):
        given_to(store, good, "other")
    assert store.current(NAME) == generation


def test_a_collection_without_documents_cannot_be_calibrated(store: Store) -> None:
    with store.writer(NAME, spaces=None) as writer:
        writer.delete(names(ROWS))
        writer.commit()
    with pytest.raises(InvalidInput, match="stores nothing"):
        given_to(store, normal(3, SPACE.dimensions))
