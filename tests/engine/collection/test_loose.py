"""Loose segments: what is whole is adopted once, in one commit, after every byte was verified."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import orjson
import pytest

from aidre.engine.collection.loose import (
    SegmentOrder,
    SegmentPlace,
    adopt_segments,
    check_name,
    is_stored,
    put_segments,
)
from aidre.engine.collection.store import Store
from aidre.engine.errors import BucketFailed, InvalidInput, Missing, SpaceConflict, StorageFailed
from aidre.engine.maintenance.bucket import Bucket, place_of
from aidre.engine.maintenance.verify import verify
from aidre.engine.model import EmbeddingSpace
from aidre.engine.segment.staged import StagedSegments
from aidre.engine.storage import durable, vectors_file
from tests.support.stores import NAME, SPACE, normal, put, record, space_of, write

KINDS = ("folder", "bucket")


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> SegmentPlace:
    folder = tmp_path / "parts"
    if request.param == "bucket":
        pytest.importorskip("obstore", reason="needs obstore, of aidre[s3]")
        return place_of(folder.as_uri())
    return place_of(folder)


def write_part(
    place: SegmentPlace,
    tmp_path: Path,
    name: str,
    ids: Sequence[str],
    *,
    text: str = "",
    space: EmbeddingSpace = SPACE,
    order: SegmentOrder | None = None,
) -> None:
    scratch = tmp_path / f"scratch {name}{text}"
    with Store(scratch).writer(NAME, spaces=[space]) as writer:
        put(writer, [record(one, [text or name]) for one in ids], normal(len(ids), space.dimensions))
        staging, entries = writer.staged_rows()
        put_segments(place, name, staging, entries, writer, order=order)
    assert NAME not in Store(scratch).collections()


def texts(store: Path) -> dict[str, str]:
    return {chunk.document_id: chunk.text for chunk in Store(store).open(NAME).scan()}


def test_parts_become_one_generation_each_once(place: SegmentPlace, tmp_path: Path) -> None:
    write_part(place, tmp_path, "part-2", ["b", "c"])
    write_part(place, tmp_path, "part-1", ["a", "b"])
    store = Store(tmp_path / "store")
    assert adopt_segments(store, NAME, place) == ["part-1", "part-2"]
    assert texts(store.path) == {"a": "part-1", "b": "part-2", "c": "part-2"}
    assert store.open(NAME).generation == 1
    assert adopt_segments(store, NAME, place) == []
    assert store.open(NAME).generation == 1
    write_part(place, tmp_path, "part-3", ["a"])
    assert adopt_segments(store, NAME, place) == ["part-3"]
    assert texts(store.path)["a"] == "part-3"
    assert not [problem for report in verify(store) for problem in report.problems]


def test_a_segment_is_not_taken_again_after_its_documents_were_deleted(place: SegmentPlace, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    write_part(place, tmp_path, "one", ["a", "b"])
    adopt_segments(store, NAME, place)
    with store.writer(NAME, spaces=None) as writer:
        writer.delete(["a"])
        writer.commit()
        writer.compact()
    assert adopt_segments(store, NAME, place) == []
    assert list(texts(store.path)) == ["b"]


def test_of_two_attempts_at_one_name_the_first_counts(place: SegmentPlace, tmp_path: Path) -> None:
    write_part(place, tmp_path, "one", ["a"], text="first")
    write_part(place, tmp_path, "one", ["a"], text="second")
    folders = [path for path in (tmp_path / "parts").iterdir() if path.is_dir() and any(path.iterdir())]
    assert len(folders) == 1
    adopt_segments(Store(tmp_path / "store"), NAME, place)
    assert texts(tmp_path / "store") == {"a": "first"}


def test_what_is_not_whole_is_not_adopted(place: SegmentPlace, tmp_path: Path) -> None:
    write_part(place, tmp_path, "one", ["a"])
    write_part(place, tmp_path, "two", ["b"])
    (tmp_path / "parts" / "two.json").unlink()
    assert adopt_segments(Store(tmp_path / "store"), NAME, place) == ["one"]
    assert list(texts(tmp_path / "store")) == ["a"]


@pytest.mark.parametrize("fault", ["flipped", "short", "missing"])
def test_a_damaged_file_is_refused_and_nothing_is_stored(fault: str, place: SegmentPlace, tmp_path: Path) -> None:
    write_part(place, tmp_path, "one", ["a"])
    (path,) = (tmp_path / "parts").glob("one.*/chunks.arrow")
    content = bytearray(path.read_bytes())
    path.chmod(0o600)
    if fault == "missing":
        path.unlink()
    elif fault == "short":
        path.write_bytes(content[:-10])
    else:
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    store = Store(tmp_path / "store")
    with pytest.raises(StorageFailed):
        adopt_segments(store, NAME, place)
    assert NAME not in store.collections()
    assert not list((store.path / NAME / "segments").glob("*"))


def test_a_record_that_leads_out_of_its_folder_is_refused(tmp_path: Path) -> None:
    place = place_of(tmp_path / "parts")
    write_part(place, tmp_path, "one", ["a"])
    path = tmp_path / "parts" / "one.json"
    stored = orjson.loads(path.read_bytes())
    for change in ({"attempt": "../x"}, {"name": "two"}, {"format": 2}):
        path.chmod(0o600)
        path.write_bytes(orjson.dumps(stored | change))
        with pytest.raises(StorageFailed, match=r"one\.json"):
            adopt_segments(Store(tmp_path / "store"), NAME, place)


def test_other_spaces_are_refused(tmp_path: Path) -> None:
    place, store = place_of(tmp_path / "parts"), tmp_path / "store"
    write(store, [record("a")])
    write_part(place, tmp_path, "one", ["b"], space=space_of("dot"))
    with pytest.raises(SpaceConflict, match="not those of the collection"):
        adopt_segments(Store(store), NAME, place)
    assert list(texts(store)) == ["a"]
    write_part(place, tmp_path, "two", ["b"])
    with pytest.raises(InvalidInput, match="other spaces"):
        adopt_segments(Store(store), NAME, place)


def test_a_place_without_segments_is_missing(place: SegmentPlace, tmp_path: Path) -> None:
    with pytest.raises(Missing, match="no segment"):
        adopt_segments(Store(tmp_path / "store"), NAME, place)
    assert not (tmp_path / "store" / NAME).exists()


def test_an_adoption_that_failed_is_repeated(place: SegmentPlace, tmp_path: Path) -> None:
    write_part(place, tmp_path, "one", ["a"])
    store = Store(tmp_path / "store")
    with mock.patch.object(durable, "replace_file", side_effect=StorageFailed("no room")), pytest.raises(StorageFailed):
        adopt_segments(store, NAME, place)
    assert adopt_segments(store, NAME, place) == ["one"]
    assert list(texts(store.path)) == ["a"]


def test_the_place_may_go_after_the_adoption(tmp_path: Path) -> None:
    place = place_of(tmp_path / "parts")
    write_part(place, tmp_path, "one", ["a"])
    adopt_segments(Store(tmp_path / "store"), NAME, place)
    shutil.rmtree(tmp_path / "parts")
    assert texts(tmp_path / "store") == {"a": "one"}


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden", "x" * 201, "a b"])
def test_names_that_are_no_names_of_files_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="not a name"):
        check_name(name)


def test_a_record_whose_answer_was_lost_keeps_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("obstore", reason="needs obstore, of aidre[s3]")
    place, lost, put_new = place_of((tmp_path / "parts").as_uri()), list[str](), Bucket._put_new

    def without_answer(bucket: Bucket, key: str, content: bytes | Path) -> bool:
        is_new = put_new(bucket, key, content)
        if not lost:
            lost.append(key)
            raise BucketFailed("no answer", url=bucket.url, reason="unreachable")
        return is_new

    monkeypatch.setattr(Bucket, "_put_new", without_answer)
    write_part(place, tmp_path, "one", ["a"])
    assert lost == ["one.json"]
    assert adopt_segments(Store(tmp_path / "store"), NAME, place) == ["one"]


def test_a_record_without_its_files_is_replaced(place: SegmentPlace, tmp_path: Path) -> None:
    write_part(place, tmp_path, "one", ["a"], text="first")
    (path,) = (tmp_path / "parts").glob("one.*/chunks.arrow")
    path.unlink()
    assert not is_stored(place, "one", SegmentOrder("one"))
    write_part(place, tmp_path, "one", ["a"], text="second")
    assert is_stored(place, "one", SegmentOrder("one"))
    adopt_segments(Store(tmp_path / "store"), NAME, place)
    assert texts(tmp_path / "store") == {"a": "second"}


def test_another_spelling_of_a_place_adopts_nothing_again(tmp_path: Path) -> None:
    store, folder = Store(tmp_path / "store"), tmp_path / "parts"
    write_part(place_of(folder), tmp_path, "one", ["a"])
    adopt_segments(store, NAME, place_of(folder))
    (tmp_path / "link").symlink_to(folder)
    shutil.copytree(folder, tmp_path / "copy")
    for place in (tmp_path / "link", tmp_path / "copy", tmp_path / "store" / ".." / "parts"):
        assert adopt_segments(store, NAME, place_of(place)) == []


def test_links_and_files_of_another_size_are_not_copied(tmp_path: Path) -> None:
    place = place_of(tmp_path / "parts")
    write_part(place, tmp_path, "one", ["a"])
    (path,) = (tmp_path / "parts").glob("one.*/chunks.arrow")
    path.rename(tmp_path / "outside")
    path.symlink_to(tmp_path / "outside")
    with pytest.raises(StorageFailed, match="write one again"):
        adopt_segments(Store(tmp_path / "store"), NAME, place)
    path.unlink()
    path.write_bytes((tmp_path / "outside").read_bytes() + bytes(9))
    with pytest.raises(StorageFailed, match="write one again"):
        adopt_segments(Store(tmp_path / "store"), NAME, place)


@pytest.mark.parametrize("fault", ["a\0b", "", "no vectors", "other columns"])
def test_a_record_of_a_wrong_segment_is_refused_before_anything_is_moved(fault: str, tmp_path: Path) -> None:
    place, store = place_of(tmp_path / "parts"), Store(tmp_path / "store")
    write(store.path, [record("old")])
    write_part(place, tmp_path, "one", ["a"])
    path = tmp_path / "parts" / "one.json"
    stored = orjson.loads(path.read_bytes())
    files = stored["entry"]["files"]
    if fault == "no vectors":
        del files[vectors_file(SPACE.id)]
    elif fault == "other columns":
        (target,) = (tmp_path / "parts").glob("one.*/documents.arrow")
        target.chmod(0o600)
        shutil.copyfile(target.with_name("ids.arrow"), target)
        files["documents.arrow"] = files["ids.arrow"]
    else:
        files[fault] = files["ids.arrow"]
    path.chmod(0o600)
    path.write_bytes(orjson.dumps(stored))
    with (
        mock.patch.object(StagedSegments, "move_to", side_effect=AssertionError("moved")),
        pytest.raises(StorageFailed, match="write one again"),
    ):
        adopt_segments(store, NAME, place)


def test_the_order_of_runs_counts_within_a_partition_and_not_that_of_names(place: SegmentPlace, tmp_path: Path) -> None:
    for name, order in (("a", SegmentOrder("p", 2)), ("b", SegmentOrder("p", 1)), ("c", SegmentOrder("o", 3))):
        write_part(place, tmp_path, name, ["x"], order=order)
    assert adopt_segments(Store(tmp_path / "store"), NAME, place) == ["c", "b", "a"]
    assert texts(tmp_path / "store") == {"x": "a"}
