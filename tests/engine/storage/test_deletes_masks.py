"""Tombstones: the file that a commit writes, the counts in the manifest, and the masks that are read again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aidre.engine.collection.store import Store
from aidre.engine.errors import StoreDamaged
from aidre.engine.storage import deletes
from aidre.engine.storage.manifest import Manifest, SegmentEntry
from tests.support.stores import NAME, ROWS, SPACE, put, record


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """Three segments of 20 documents; those of the last have two chunks each."""
    path = tmp_path_factory.mktemp("store")
    with Store(path).writer(NAME, spaces=[SPACE]) as writer:
        for first, texts in ((0, ["one"]), (20, ["one"]), (40, ["one", "two"])):
            put(writer, [record(f"d{number}", texts) for number in range(first, first + 20)], ROWS[: 20 * len(texts)])
            writer.commit()
    manifest = Store(path).open(NAME).manifest
    assert [entry.chunks for entry in manifest.segments] == [20, 20, 40]
    return manifest


def mask(*rows: int) -> deletes.Mask:
    mask = np.zeros(20, np.bool_)
    mask[list(rows)] = True
    return mask


def counts(manifest: Manifest) -> list[tuple[str | None, int, int]]:
    return [(one.deletes, one.deleted_documents, one.deleted_chunks) for one in manifest.segments]


def written(folder: Path, manifest: Manifest, generation: int, masks: dict[int, deletes.Mask]) -> Manifest:
    """The manifest after a commit that deletes rows of segments, given by their ordinals."""
    twice = np.full(20, 2, np.int32)
    chunk_counts = {entry.id: None if entry.chunks == 20 else twice for entry in manifest.segments}
    by_id = {manifest.segments[number].id: mask for number, mask in masks.items()}
    return deletes.write_deletes(folder, manifest, generation, by_id, chunk_counts)


def read(folder: Path, manifest: Manifest) -> dict[str, list[int]]:
    return {segment: np.flatnonzero(mask).tolist() for segment, mask in deletes.read_deletes(folder, manifest).items()}


def ids(manifest: Manifest) -> list[str]:
    return [entry.id for entry in manifest.segments]


def test_masks_are_read_as_they_were_written(tmp_path: Path, manifest: Manifest) -> None:
    masks = {0: mask(0, 7, 8, 19), 2: mask(3)}
    after = written(tmp_path, manifest, 4, masks)
    first, _, third = ids(manifest)
    assert read(tmp_path, after) == {first: [0, 7, 8, 19], third: [3]}
    assert all(len(one) == 20 and one.dtype == np.bool_ for one in deletes.read_deletes(tmp_path, after).values())
    path = tmp_path / "deletes" / "000004.arrow"
    assert list(after.deletes) == [path.name] and path.stat().st_mode & 0o777 == 0o440


def test_deleted_documents_and_chunks_are_counted(tmp_path: Path, manifest: Manifest) -> None:
    after = written(tmp_path, manifest, 4, {0: mask(0, 7), 2: mask(3, 4, 5)})
    assert counts(after) == [("000004.arrow", 2, 2), (None, 0, 0), ("000004.arrow", 3, 6)]


def test_only_documents_that_are_deleted_count_their_chunks(tmp_path: Path, manifest: Manifest) -> None:
    entry = manifest.segments[2]
    chunks = np.array([3, 1] + [2] * 18, np.int32)
    after = deletes.write_deletes(tmp_path, manifest, 4, {entry.id: mask(0, 2)}, {entry.id: chunks})
    assert counts(after)[2] == ("000004.arrow", 2, 5)


def test_without_a_mask_nothing_is_written(tmp_path: Path, manifest: Manifest) -> None:
    assert deletes.write_deletes(tmp_path, manifest, 4, {}, {}) is manifest
    assert list(tmp_path.iterdir()) == []
    assert deletes.read_deletes(tmp_path, manifest) == {}


def test_a_segment_without_live_chunks_leaves_the_manifest(tmp_path: Path, manifest: Manifest) -> None:
    after = written(tmp_path, manifest, 4, {1: mask(*range(20)), 2: mask(1)})
    first, _, third = ids(manifest)
    assert ids(after) == [first, third]
    assert read(tmp_path, after) == {third: [1]}


def test_the_newest_file_of_each_segment_is_in_force(tmp_path: Path, manifest: Manifest) -> None:
    before = written(tmp_path, manifest, 4, {0: mask(1), 1: mask(2)})
    after = written(tmp_path, before, 5, {0: mask(1, 3)})
    first, second, _ = ids(manifest)
    assert read(tmp_path, after) == {first: [1, 3], second: [2]}
    assert list(after.deletes) == ["000004.arrow", "000005.arrow"]
    assert read(tmp_path, before) == {first: [1], second: [2]}, "the older generation is as it was"


def test_a_file_that_no_segment_names_leaves_the_manifest(tmp_path: Path, manifest: Manifest) -> None:
    before = written(tmp_path, manifest, 4, {0: mask(1)})
    after = written(tmp_path, before, 5, {0: mask(1, 2), 1: mask(9)})
    assert list(after.deletes) == ["000005.arrow"]
    kept = replace(after, segments=after.segments[2:])
    assert deletes.prune_deletes(kept).deletes == {}


def test_masks_of_segments_that_are_gone_are_passed_over(tmp_path: Path, manifest: Manifest) -> None:
    after = written(tmp_path, manifest, 4, {0: mask(1), 1: mask(2)})
    merged = replace(after, segments=after.segments[1:])
    assert read(tmp_path, merged) == {ids(manifest)[1]: [2]}


def test_a_damaged_file_is_named(tmp_path: Path, manifest: Manifest) -> None:
    after = written(tmp_path, manifest, 4, {0: mask(1)})
    path = tmp_path / "deletes" / "000004.arrow"
    path.chmod(0o644)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(StoreDamaged, match=rf"{NAME}/deletes/000004.arrow .*: restore it from a backup"):
        deletes.read_deletes(tmp_path, after)


def test_the_entry_of_a_segment_counts_what_lives(manifest: Manifest) -> None:
    entry: SegmentEntry = manifest.segments[2]
    assert (entry.live_chunks, replace(entry, deleted_chunks=6).live_chunks) == (40, 34)
