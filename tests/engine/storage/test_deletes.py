"""Tombstones: masks come back as they were written, and a manifest names only those that count."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from aidre.engine.errors import StoreDamaged
from aidre.engine.storage.deletes import read_deletes, write_deletes
from aidre.engine.storage.manifest import Manifest, SegmentEntry, first_manifest

ENTRIES = (SegmentEntry("a", 9, 9, {}), SegmentEntry("b", 3, 6, {}), SegmentEntry("c", 1, 1, {}))
COUNTS = {"a": None, "b": np.array([1, 2, 3], np.int32), "c": None}


@pytest.fixture
def manifest() -> Manifest:
    return replace(first_manifest("docs", []), segments=ENTRIES)


def mask(rows: int, *deleted: int) -> NDArray[np.bool_]:
    return np.isin(np.arange(rows), deleted)


def deleted(folder: Path, manifest: Manifest) -> dict[str, list[int]]:
    return {name: np.flatnonzero(one).tolist() for name, one in read_deletes(folder, manifest).items()}


def test_masks_come_back_as_they_were_written(tmp_path: Path, manifest: Manifest) -> None:
    written = write_deletes(tmp_path, manifest, 4, {"a": mask(9, 0, 8), "b": mask(3, 1, 2)}, COUNTS)
    assert deleted(tmp_path, written) == {"a": [0, 8], "b": [1, 2]}
    assert [len(one) for one in read_deletes(tmp_path, written).values()] == [9, 3]
    assert [(entry.deleted_documents, entry.deleted_chunks) for entry in written.segments] == [(2, 2), (2, 5), (0, 0)]
    assert [entry.deletes for entry in written.segments] == ["000004.arrow", "000004.arrow", None]
    assert (written.documents, written.chunks) == (9, 9)


def test_without_masks_nothing_is_written(tmp_path: Path, manifest: Manifest) -> None:
    assert write_deletes(tmp_path, manifest, 4, {}, {}) is manifest
    assert list(tmp_path.iterdir()) == []
    assert read_deletes(tmp_path, manifest) == {}


def test_the_newest_mask_of_a_segment_counts_and_files_that_none_names_are_dropped(
    tmp_path: Path, manifest: Manifest
) -> None:
    first = write_deletes(tmp_path, manifest, 4, {"a": mask(9, 0), "b": mask(3, 0)}, COUNTS)
    second = write_deletes(tmp_path, first, 5, {"a": mask(9, 0, 1)}, COUNTS)
    assert deleted(tmp_path, second) == {"a": [0, 1], "b": [0]}
    assert list(second.deletes) == ["000004.arrow", "000005.arrow"]
    turned = replace(second, deletes=dict(reversed(list(second.deletes.items()))))
    assert deleted(tmp_path, turned) == {"a": [0, 1], "b": [0]}
    third = write_deletes(tmp_path, second, 6, {"b": mask(3, 0, 2)}, COUNTS)
    assert deleted(tmp_path, third) == {"a": [0, 1], "b": [0, 2]}
    assert list(third.deletes) == ["000005.arrow", "000006.arrow"]
    assert deleted(tmp_path, first) == {"a": [0], "b": [0]}


def test_a_segment_without_live_chunks_is_dropped(tmp_path: Path, manifest: Manifest) -> None:
    written = write_deletes(tmp_path, manifest, 4, {"c": mask(1, 0)}, COUNTS)
    assert [entry.id for entry in written.segments] == ["a", "b"]
    assert written.deletes == {}


@pytest.mark.parametrize("damage", ["missing", "altered"])
def test_damaged_tombstones_are_never_read(damage: str, tmp_path: Path, manifest: Manifest) -> None:
    written = write_deletes(tmp_path, manifest, 4, {"a": mask(9, 0)}, COUNTS)
    path = tmp_path / "deletes" / "000004.arrow"
    content = bytearray(path.read_bytes())
    path.unlink()
    if damage == "altered":
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    with pytest.raises(StoreDamaged, match=r"docs/deletes/000004\.arrow .*restore it from a backup"):
        read_deletes(tmp_path, written)
