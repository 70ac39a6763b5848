"""Indexes of a generation: built beside those that an older one names, and calibrated when that is due."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from aidre.engine.collection import garbage
from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.errors import StorageFailed
from aidre.engine.maintenance.backup import back_up
from aidre.engine.maintenance.history import roll_back
from aidre.engine.maintenance.restore import restore_archive
from aidre.engine.maintenance.verify import verify
from aidre.engine.storage import durable
from aidre.engine.storage.format import find_index_file, index_file, keys_file, space_files, vectors_file
from aidre.engine.storage.manifest import Calibration
from tests.support.calibrations import measured_quickly
from tests.support.stores import NAME, ask, copied, names, normal, put, space_of, structured

pytestmark = pytest.mark.usefixtures("quick_calibration")

SPACE = space_of("cosine", 768)
ROWS = 1_700
FIRST, SECOND = index_file(SPACE.id), index_file(SPACE.id, 2)


@pytest.fixture(scope="module")
def easy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One segment, whose index has as few codes as its rows need."""
    path: Path = tmp_path_factory.mktemp("easy")
    with measured_quickly(), Store(path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, names(ROWS), structured(ROWS, SPACE.dimensions))
        writer.commit()
    return path


@pytest.fixture
def store(easy: Path, tmp_path: Path) -> Store:
    return Store(copied(easy, tmp_path / "store"))


def add_hard_rows(store: Store) -> Snapshot:
    """Rows that need more codes: the index of the first segment is built anew."""
    with store.writer(NAME, spaces=[SPACE]) as writer:
        put(writer, names(ROWS, ROWS), normal(ROWS, SPACE.dimensions))
        writer.commit()
    return store.open(NAME)


def indexes(snapshot: Snapshot) -> list[str | None]:
    return [find_index_file(entry.files, SPACE.id) for entry in snapshot.manifest.segments]


def contents(store: Store) -> dict[Path, tuple[int, bytes]]:
    paths = (store.path / NAME / "segments").glob("*/*.arrow")
    return {path: (path.stat().st_ino, path.read_bytes()) for path in paths}


def is_sound(store: Store, snapshot: Snapshot) -> bool:
    scans = [bool(part.segment.scans) for part in snapshot.segments]
    return not snapshot.warnings and all(scans) and [report.problems for report in verify(store)] == [()]


@pytest.mark.slow
def test_an_index_that_a_generation_names_is_not_replaced_by_a_larger_one(store: Store) -> None:
    before = contents(store)
    snapshot = add_hard_rows(store)
    old = store.open(NAME, generation=1)
    assert contents(store).items() >= before.items()
    assert (indexes(old), indexes(snapshot)) == ([FIRST], [SECOND, FIRST])
    sizes = [part.segment.scans[SPACE.id].code_size for part in (*old.segments, *snapshot.segments)]
    assert sizes[0] < sizes[1] == sizes[2]
    assert is_sound(store, old)
    assert is_sound(store, snapshot)
    assert verify(store)[0].older == ()


@pytest.mark.slow
def test_a_writer_that_ends_between_index_and_manifest_leaves_the_generation_whole(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, content: bytes) -> None:
        raise StorageFailed(f"cannot write {path.name}", file=path.name)

    with monkeypatch.context() as refused:
        refused.setattr(durable, "replace_file", refuse)
        refused.setattr(garbage, "discard", lambda *_: None)  # a writer that is killed removes nothing
        with pytest.raises(StorageFailed):
            add_hard_rows(store)
    assert any(path.name == SECOND for path in contents(store))
    assert is_sound(store, store.open(NAME))
    back_up(store, [NAME], tmp_path / "backup.tar")
    assert is_sound(store, add_hard_rows(store))


@pytest.mark.parametrize("is_missing", [False, True])
def test_an_index_that_is_mended_is_another_file(store: Store, *, is_missing: bool) -> None:
    [path] = [path for path in contents(store) if path.name == FIRST]
    path.unlink()
    if not is_missing:
        path.write_bytes(b"damaged")
    with store.writer(NAME, spaces=[SPACE]) as writer:
        writer.delete(names(1))
        writer.commit()
    snapshot = store.open(NAME)
    assert indexes(snapshot) == [SECOND]
    assert is_sound(store, snapshot)
    assert path.exists() is not is_missing


@pytest.mark.slow
def test_a_later_index_is_saved_restored_gone_back_from_and_swept(store: Store, tmp_path: Path) -> None:
    add_hard_rows(store)
    back_up(store, [NAME], tmp_path / "backup.tar")
    new = Store(tmp_path / "new")
    restore_archive(new, tmp_path / "backup.tar")
    assert indexes(new.open(NAME)) == [SECOND, FIRST]
    assert is_sound(new, new.open(NAME))
    assert roll_back(store, NAME, 1) == 3
    assert indexes(store.open(NAME)) == [FIRST]
    assert is_sound(store, store.open(NAME))
    assert roll_back(store, NAME, 2) == 4
    snapshot = store.open(NAME)
    assert indexes(snapshot) == [SECOND, FIRST]
    garbage.collect(store.path / NAME, replace(snapshot.manifest, keep=1), keep_seconds=-60)
    assert sorted(path.name for path in contents(store) if ".index." in path.name) == [SECOND, FIRST]
    assert is_sound(store, store.open(NAME))
    with store.writer(NAME, spaces=[SPACE]) as writer:
        writer.compact()
        writer.purge()
    assert [path.name for path in contents(store) if ".index." in path.name] == [FIRST]
    assert is_sound(store, store.open(NAME))


def test_the_files_of_a_space_are_told_from_those_of_a_space_of_nearly_its_name() -> None:
    spaces = ["a", "a.index", "a.index.000042", "a.000042", "b", "a?"]
    files = {
        space: {vectors_file(space), keys_file(space), index_file(space, 42 if number % 2 else None)}
        for number, space in enumerate(spaces)
    }
    everything = set().union(*files.values())
    assert {space: space_files(everything, space) for space in spaces} == files
    assert find_index_file(everything - files["a"], "a") is None
    assert find_index_file([index_file("a", 1_234_567)], "a") == "a.index.1234567.arrow"


# -- when a space is calibrated ----------------------------------------------------------------------------------


def calibration_of(snapshot: Snapshot) -> Calibration:
    calibration = snapshot.manifest.spaces[0].calibration
    assert calibration is not None
    return calibration


@pytest.mark.slow
def test_a_space_is_calibrated_anew_when_it_has_doubled(tmp_path: Path) -> None:
    rows = structured(3_600, 768)
    calibrated = []
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        for start, end in ((0, 300), (300, 1_700), (1_700, 3_000), (3_000, 3_600)):
            put(writer, names(end - start, start), rows[start:end])
            writer.commit()
            writer.finish()  # a first load is calibrated less often than what comes later
            assert writer.snapshot is not None
            calibrated.append((calibration_of(writer.snapshot).kind, calibration_of(writer.snapshot).rows))
    assert calibrated == [("exact", 300), ("scan", 1_700), ("scan", 1_700), ("scan", 3_600)]
    snapshot = Store(tmp_path).open(NAME)
    assert [bool(part.segment.scans) for part in snapshot.segments] == [True] * 4


def test_a_large_segment_with_one_live_row_is_searched_exactly(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, names(ROWS), structured(ROWS, 768))
        writer.delete(names(ROWS - 1))
        writer.commit()
    snapshot = Store(tmp_path).open(NAME)
    assert calibration_of(snapshot).kind == "exact"
    assert ask(snapshot, structured(1, 768)[0]) == names(1, ROWS - 1)


@pytest.mark.slow
def test_what_was_measured_on_rows_that_are_all_gone_is_measured_again(store: Store) -> None:
    assert calibration_of(store.open(NAME)).rows == ROWS
    with store.writer(NAME, spaces=[SPACE]) as writer:
        writer.delete(names(ROWS))
        writer.commit()
        put(writer, names(1_600), structured(1_600, 768, 7))
        writer.commit()
    assert calibration_of(store.open(NAME)).rows == 1_600


@pytest.mark.slow
def test_a_first_load_whose_later_commit_replaces_all_is_calibrated_at_its_end(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        for seed in (1, 2):
            put(writer, names(ROWS), structured(ROWS, 768, seed))
            writer.commit()
        writer.finish()
    [part] = Store(tmp_path).open(NAME).segments
    assert part.segment.scans


@pytest.mark.slow
def test_a_collection_that_turned_over_is_calibrated_again(store: Store) -> None:
    first = calibration_of(store.open(NAME))
    assert first.written == 0
    ids, others, half = names(ROWS), normal(ROWS, 768, 3), ROWS // 2
    with store.writer(NAME, spaces=[SPACE]) as writer:
        for start in (0, half):
            put(writer, ids[start : start + half], others[start : start + half])
            writer.commit()
            assert calibration_of(store.open(NAME)).written == (start + half) % ROWS
    last = calibration_of(store.open(NAME))
    assert (last.kind, last.code_size, last.depths) != (first.kind, first.code_size, first.depths)
