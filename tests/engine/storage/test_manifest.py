"""Manifests: they come back as they were written, and what is altered or of a later format is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from aidre.engine.errors import FormatTooNew, StoreDamaged
from aidre.engine.storage.arrow import FileEntry
from aidre.engine.storage.format import FORMAT, index_file, manifest_name, vectors_file
from aidre.engine.storage.manifest import (
    Calibration,
    ChangesEntry,
    Depth,
    LearnedDepth,
    Manifest,
    SegmentEntry,
    SpaceState,
    TargetDepths,
    encode_manifest,
    first_manifest,
    read_manifest,
    seal,
    unseal,
    with_precision,
)
from tests.support.stores import space_of

FILE = FileEntry(9, "ab" * 16, ((0, 4), (6, 3)), "cd" * 16)
SPACE = with_precision(space_of("cosine", 8, model="m", revision="r"))
LEARNED = (LearnedDepth("given", 10, 1.5, 1.0, 1.25, 0.97),)
OTHERS = (TargetDepths(0.9, (Depth(10, 40, 0.93, 0.8, 2, 0.25, 600),), LEARNED),)
DEPTHS = (Depth(10, 100, 0.99, 0.9, 4, 0.5, 2_500), Depth(100, 600, 0.99, 0.9))
CALIBRATION = Calibration("scan", 0.95, 1_000, 64, 12, DEPTHS, None, 7, LEARNED, OTHERS)
WHOLE = Manifest(
    generation=3,
    parent=2,
    lineage="ef" * 16,
    created_at="2026-04-01T10:00:00Z",
    name="docs",
    description="é",
    visibility="private",
    updated_at="2026-04-02T10:00:00Z",
    spaces=(SpaceState(SPACE, "live", "onnxruntime", CALIBRATION), SpaceState(with_precision(space_of("dot", 3)))),
    segments=(
        SegmentEntry("0123456789abcdef", 5, 9, {"documents.arrow": FILE}, "000003.arrow", 2, 4),
        SegmentEntry("fedcba9876543210", 1, 1, {}),
    ),
    dates=("born",),
    deletes={"000003.arrow": FILE},
    changes=ChangesEntry(3, "0" * 15 + "1", FILE),
    source_roots={"docs": "/docs"},
    source_states={"https://example.org": {"etag": "x"}},
    keep=5,
)


def write(folder: Path, manifest: Manifest) -> Path:
    path = folder / manifest_name(manifest.generation)
    path.write_bytes(encode_manifest(manifest))
    return path


def test_a_manifest_comes_back_as_it_was_written(tmp_path: Path) -> None:
    for manifest in (WHOLE, first_manifest("docs", [SpaceState(SPACE)])):
        write(tmp_path, manifest)
        assert read_manifest(tmp_path, manifest.generation, "docs") == manifest


def test_counts_leave_out_what_is_deleted() -> None:
    assert (WHOLE.documents, WHOLE.chunks) == (4, 6)
    assert orjson.loads(unseal(encode_manifest(WHOLE)))["counts"] == {"documents": 4, "chunks": 6}


def test_two_collections_have_two_lineages() -> None:
    assert first_manifest("a", []).lineage != first_manifest("a", []).lineage


def test_an_altered_bit_of_a_manifest_is_found(tmp_path: Path) -> None:
    path = write(tmp_path, WHOLE)
    sound = path.read_bytes()
    for place in range(0, len(sound), 9):
        path.write_bytes(sound[:place] + bytes([sound[place] ^ 1 << place % 8]) + sound[place + 1 :])
        with pytest.raises(StoreDamaged, match=r"docs/manifests/000003\.json"):
            read_manifest(tmp_path, 3, "docs")
    for size in (0, 1, len(sound) // 2, len(sound) - 1):
        path.write_bytes(sound[:size])
        with pytest.raises(StoreDamaged):
            read_manifest(tmp_path, 3, "docs")


def test_a_manifest_that_is_not_there_is_told_from_a_damaged_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_manifest(tmp_path, 7, "docs")


def changed(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Write the manifest with a body that was changed and sealed again."""
    path = write(folder, WHOLE)
    body = orjson.loads(unseal(path.read_bytes()))
    change(body)
    path.write_bytes(seal(orjson.dumps(body)))


def test_a_manifest_of_before_there_were_learned_depths_has_none(tmp_path: Path) -> None:
    changed(tmp_path, lambda body: [space.pop("learned") for space in body["spaces"]])
    calibration = read_manifest(tmp_path, 3, "docs").spaces[0].calibration
    assert calibration == replace(CALIBRATION, learned=())


def test_learned_depths_stand_beside_the_calibration_where_an_older_release_passes_over_them(tmp_path: Path) -> None:
    body = orjson.loads(unseal(write(tmp_path, WHOLE).read_bytes()))
    assert body["spaces"][0]["learned"][0]["candidates"] == 1.5
    assert "learned" not in body["spaces"][0]["calibration"]


def test_other_recalls_stand_beside_it_too_and_an_older_manifest_has_none(tmp_path: Path) -> None:
    [space, _] = orjson.loads(unseal(write(tmp_path, WHOLE).read_bytes()))["spaces"]
    assert (space["others"][0]["target"], space["scanned"]) == (0.9, [2_500, 0])
    assert "others" not in space["calibration"]
    assert not any("scanned" in depth for depth in space["calibration"]["depths"])
    changed(tmp_path, lambda body: [(space.pop("others"), space.pop("scanned")) for space in body["spaces"]])
    calibration = read_manifest(tmp_path, 3, "docs").spaces[0].calibration
    assert calibration == replace(CALIBRATION, others=(), depths=tuple(replace(one, scanned=0) for one in DEPTHS))


def test_a_later_format_is_refused_by_its_number(tmp_path: Path) -> None:
    changed(tmp_path, lambda body: body.update(format=FORMAT + 1, segments="other"))
    with pytest.raises(FormatTooNew, match=str(FORMAT + 1)):
        read_manifest(tmp_path, 3, "docs")


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body.pop("lineage"),
        lambda body: body.pop("segments"),
        lambda body: body.update(generation="3"),
        lambda body: body.update(generation=-1),
        lambda body: body.update(keep=1 << 60),
        lambda body: body.update(segments=5),
        lambda body: body["segments"][0].update(id="../../etc"),
        lambda body: body["segments"][0].update(id=""),
        lambda body: body["segments"][0].update(deletes="a/b"),
        lambda body: body["segments"][0].update(chunks=True),
        lambda body: body["segments"][0]["files"].update({".hidden": asdict(FILE)}),
        lambda body: body["segments"][0]["files"]["documents.arrow"].update(frame=[[0, -1]]),
        lambda body: body["deletes"].update({"a\0b": asdict(FILE)}),
        lambda body: body["spaces"][0].update(distance="manhattan"),
        lambda body: body["spaces"][0].update(precision="int8"),
        lambda body: body["spaces"][0].update(dimensions=0),
        lambda body: body["spaces"][0]["calibration"].update(target="high"),
        lambda body: body["spaces"][0]["learned"][0].update(recall="high"),
        lambda body: body["spaces"][0].update(learned=[5]),
        lambda body: body.update(source_roots={"docs": 5}),
        lambda body: body.update(source_states={"x": "y"}),
        lambda body: body.update(dates=[5]),
    ],
)
def test_a_body_that_no_writer_makes_is_damage_though_its_checksum_is_right(
    change: Callable[[dict[str, Any]], Any], tmp_path: Path
) -> None:
    changed(tmp_path, lambda body: None)
    assert read_manifest(tmp_path, 3, "docs") == WHOLE
    changed(tmp_path, change)
    with pytest.raises(StoreDamaged):
        read_manifest(tmp_path, 3, "docs")


def test_members_that_older_releases_did_not_write_are_filled_in(tmp_path: Path) -> None:
    changed(tmp_path, lambda body: [body.pop(name) for name in ("source_states", "keep")])
    read = read_manifest(tmp_path, 3, "docs")
    assert read == replace(WHOLE, source_states={}, keep=2)


def test_a_space_that_is_being_filled_is_not_among_those_of_the_collection() -> None:
    building = WHOLE.with_space(replace(WHOLE.spaces[0], state="building"))
    assert building.spaces[1] == WHOLE.spaces[1]
    assert [space.id for space in WHOLE.collection.spaces] == [SPACE.id, WHOLE.spaces[1].space.id]
    assert [space.id for space in building.collection.spaces] == [WHOLE.spaces[1].space.id]
    names = ["documents.arrow", vectors_file(SPACE.id), index_file(SPACE.id, 7), vectors_file(WHOLE.spaces[1].space.id)]
    entry = SegmentEntry("a", 1, 1, dict.fromkeys(names, FILE))
    assert WHOLE.without_unfinished_spaces(entry) is entry
    assert list(building.without_unfinished_spaces(entry).files) == [names[0], names[3]]
