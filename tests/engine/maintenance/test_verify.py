"""What is verified beside the newest generation's files: manifests by their kinds, CURRENT, older generations."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from aidre.engine.collection.store import Store
from aidre.engine.errors import StoreDamaged
from aidre.engine.index.fields.filters import parse_filter
from aidre.engine.maintenance import verify
from aidre.engine.maintenance.scrub import Scrub
from aidre.engine.storage import manifest
from aidre.engine.storage.manifest import seal
from tests.support.damage import alter, files, flipped, report_of
from tests.support.stores import NAME, ROWS, SPACE, names, put, record, write


def resealed(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Another manifest with a right checksum, as whoever makes a backup file can write one."""
    body = orjson.loads(path.read_bytes())["body"]
    change(body)
    path.write_bytes(seal(orjson.dumps(body)))


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body.update(format="1"),
        lambda body: body.update(segments={}, deletes=[]),
        lambda body: body.update(dates=[7]),
        lambda body: body.update(source_states={"a": "b"}),
        lambda body: body["segments"][0].update(documents="1700"),
        lambda body: body["segments"][0].update(documents=-1),
        lambda body: body["segments"][0]["files"]["ids.arrow"].update(frame=[[0, 1e300]]),
        lambda body: body["segments"][0].update(deleted_documents=1 << 63),
        lambda body: body["segments"][0].update(id="../other"),
        lambda body: body["segments"][0].update(deletes="../../x"),
        lambda body: body["segments"][0]["files"].update({"../../../x": body["segments"][0]["files"]["ids.arrow"]}),
        lambda body: body["spaces"][0].update(dimensions=0),
        lambda body: body["spaces"][0].update(distance="manhattan"),
        lambda body: body["collection"].update(name=None),
    ],
)
def test_a_manifest_with_members_of_another_kind_is_refused(
    change: Callable[[dict[str, Any]], object], store: Store
) -> None:
    resealed(store.path / NAME / "manifests" / "000003.json", change)
    with pytest.raises(StoreDamaged, match=r"manifests/000003\.json"):
        store.open(NAME)
    assert not report_of(store.path).ok


def test_a_current_file_that_names_an_earlier_generation_is_found_by_verify(store: Store) -> None:
    path = store.path / NAME / "CURRENT"
    path.write_bytes(b"000002\n")
    report = report_of(store.path)
    assert [(problem.file, problem.derived) for problem in report.problems] == [(f"{NAME}/CURRENT", False)]
    assert "000003" in report.problems[0].what
    # What a commit leaves that was cut off before CURRENT named it is younger than CURRENT.
    before = (store.path / NAME / "manifests" / "000003.json").stat().st_mtime_ns - 1
    os.utime(path, ns=(before, before))
    assert report_of(store.path).problems == ()


@pytest.mark.parametrize("commits", [1, 3])
def test_commits_beside_it_are_no_damage(commits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, ["a"])
    read = manifest.read_manifest

    def before_commits(*given: Any) -> Any:
        monkeypatch.setattr(verify, "read_manifest", read)
        found = read(*given)
        for number in range(commits):
            write(tmp_path, [f"b{number}"])
        return found

    monkeypatch.setattr(verify, "read_manifest", before_commits)
    report = report_of(tmp_path)
    assert (report.generation, report.problems) == (1, ())


@pytest.mark.parametrize("function", ["read_manifest", "check_arrived", "manifest_numbers"])
def test_a_generation_that_is_swept_while_it_is_read_is_given_up_for_the_newest(
    function: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, names(20))
    write(tmp_path, names(20), 20)
    called = getattr(verify, function)

    def after_a_purge(*given: Any, **members: Any) -> Any:
        monkeypatch.setattr(verify, function, called)
        with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
            writer.delete(names(5))
            writer.purge()
        return called(*given, **members)

    monkeypatch.setattr(verify, function, after_a_purge)
    report = report_of(tmp_path)
    assert (report.generation, report.problems, report.older) == (Store(tmp_path).current(NAME), (), ())
    assert report.documents == 15


def test_what_only_older_generations_name_is_verified_too(store: Store) -> None:
    manifests, lists = store.path / NAME / "manifests", store.path / NAME / "changes"
    alter(lists / "000002.arrow", flipped(300))
    report = report_of(store.path)
    assert [problem.file for problem in report.problems] == [f"{NAME}/changes/000002.arrow"]
    alter(manifests / "000001.json", flipped(300))
    old = files(store.path, ["chunks.arrow"])[0]
    with store.writer(NAME, spaces=[SPACE]) as writer:
        writer.compact()
    assert old.parent.name not in {entry.id for entry in store.open(NAME).manifest.segments}
    body = sorted(set(range(old.stat().st_size)) - set(frame_of_generation(store.path, old, 3)))
    alter(old, flipped(body[len(body) // 2]))
    report = report_of(store.path)
    assert report.ok
    assert {problem.file for problem in report.older} == {
        f"{NAME}/manifests/000001.json",
        f"{NAME}/segments/{old.parent.name}/{old.name}",
    }


def test_a_damaged_manifest_is_named_once(store: Store) -> None:
    path = store.path / NAME / "manifests" / f"{store.current(NAME):06d}.json"
    alter(path, flipped(300))
    (problem,) = report_of(store.path).problems
    assert (problem.file, problem.what) == (
        path.relative_to(store.path).as_posix(),
        "does not have the checksum that was recorded",
    )
    (seen,) = Scrub(store, 0.001, threading.Event()).one_pass()
    assert (seen.file, seen.problem) == (problem.file, problem.what)


def frame_of_generation(store: Path, path: Path, generation: int) -> list[int]:
    manifest = Store(store).open(NAME, generation=generation).manifest
    (entry,) = (entry for entry in manifest.segments if entry.id == path.parent.name)
    return [offset + place for offset, length in entry.files[path.name].frame for place in range(length)]


def test_a_document_that_claims_endless_chunks_takes_no_memory(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        records = [record("a", ["one", "two"]), record("b", ["three"])]
        put(writer, records, ROWS[:3])
        writer.commit()
    (path,) = files(tmp_path, ["documents.arrow"])
    counts = np.array([2, 1], np.int32).tobytes()
    assert path.read_bytes().count(counts) == 1
    alter(path, lambda content: content.replace(counts, np.array([2 | 1 << 30, 1], np.int32).tobytes()))
    snapshot = Store(tmp_path).open(NAME)
    assert [chunk.id for chunk in snapshot.document("a")] == ["a#chunk_1", "a#chunk_2", "b#chunk_1"]
    with pytest.raises(StoreDamaged, match=r"documents\.arrow has chunk counts that do not add up"):
        snapshot.count(parse_filter({"document_id": "a"}))
    assert not report_of(tmp_path).ok
