"""Stores of somebody else, with right checksums and wrong values: a short form of the proof "foreign"."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from aidre.engine.collection.store import Store
from aidre.engine.errors import StoreDamaged
from aidre.engine.maintenance.verify import verify
from aidre.engine.storage.arrow import FileEntry, FileProblem, check_arrived, list_array, write_file
from aidre.engine.storage.manifest import encode_manifest, read_manifest
from tests.hostile import buffers, foreign
from tests.hostile.report import Report
from tests.support.stores import NAME, delete, write


@pytest.mark.slow
@pytest.mark.process
def test_no_store_ends_the_process_that_opens_it(tmp_path: Path) -> None:
    foreign.run(Report(tmp_path), 20, random.Random(7))


@pytest.mark.slow
@pytest.mark.process
def test_no_buffer_of_a_store_ends_the_process_that_opens_it(report: Report) -> None:
    buffers.run(report, 2_000, random.Random(7))


def test_stores_that_end_a_process_together_alone_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ending(look: object, subject: foreign.Subject, seed: int, numbers: Sequence[int]) -> foreign.Found:
        assert len(numbers) == 1, "ended by SIGSEGV"
        return foreign.Found()

    monkeypatch.setattr(foreign, "asked", ending)
    manifest = tmp_path / "1.json"
    manifest.write_bytes(b"")
    found = foreign.in_children(foreign.Subject(tmp_path, {}, {}, manifest, b""), 7, range(0, 100, 2))
    [told] = found.wrong
    assert told.startswith("stores 0 to 98 of seed 7") and "SIGSEGV" in told


def test_a_short_run_reaches_both_kinds_of_stores(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = dict[bool, list[int]]()

    def noted(subject: bool, seed: int, numbers: Sequence[int]) -> foreign.Found:
        asked[subject] = [*numbers]
        return foreign.Found()

    monkeypatch.setattr(foreign, "prepared", lambda _, *, listed: listed)
    monkeypatch.setattr(foreign, "in_children", noted)
    foreign.run(report, 20, random.Random(7))
    assert asked.keys() == {False, True} and sorted(asked[False] + asked[True]) == [*range(20)]


@pytest.mark.parametrize("offset", [-1, 4, 1 << 40, -(1 << 62)])
def test_a_list_that_is_no_part_of_its_values_is_none(offset: int) -> None:
    offsets = np.array([0, 3])
    buffers = [None, pa.py_buffer(offsets)]
    column = pa.LargeListArray.from_buffers(pa.large_list(pa.int64()), 1, buffers, children=[pa.array([1, 2, 3])])
    offsets[1] = offset  # Arrow has checked it before
    with pytest.raises(ValueError, match="holds no list"):
        list_array(column)


def test_a_list_is_a_view_of_its_part() -> None:
    column = pa.LargeListArray.from_arrays(pa.array([1, 3], pa.int64()), pa.array([1, 2, 3]))
    assert list_array(column).to_pylist() == [2, 3]


def crafted(path: Path) -> FileEntry:
    """Writes a file of strings, one of which ends far behind the file."""
    strings = pa.array(["one", "two", "three"], pa.large_string())
    offsets = np.frombuffer(strings.buffers()[1], np.int64).copy()
    offsets[2] = 1 << 40
    column = pa.Array.from_buffers(pa.large_string(), 3, [None, pa.py_buffer(offsets), strings.buffers()[2]])
    batch = pa.record_batch({"text": column})
    return write_file(path, [batch], batch.schema)


def test_a_file_with_offsets_outside_of_it_is_damaged_although_its_checksum_is_right(tmp_path: Path) -> None:
    entry = crafted(tmp_path / "a.arrow")
    with pytest.raises(FileProblem, match="point outside of it"):
        check_arrived(tmp_path / "a.arrow", entry)


@pytest.mark.process
def test_verify_names_a_file_with_offsets_outside_of_it(tmp_path: Path) -> None:
    subject = foreign.prepared(tmp_path, listed=False)
    path = subject.files["chunks"][0]
    content = bytearray(path.read_bytes())
    text = pa.ipc.open_file(pa.py_buffer(bytes(content))).read_all().column("text").chunk(0)
    place = content.find(text.buffers()[1].to_pybytes()[8:64]) + 8
    content[place : place + 8] = (1 << 40).to_bytes(8, "little")
    foreign.replaced(path, bytes(content))
    foreign.replaced(subject.manifest, foreign.sealed(subject, path, bytes(content)))
    problems = [problem for report in verify(Store(tmp_path / "store")) for problem in report.problems]
    assert [(path.name in problem.file, problem.derived) for problem in problems] == [(True, False)]
    assert "point outside of it" in problems[0].what


@pytest.mark.parametrize("kind", ["documents", "chunks", "vectors", "deletes"])
@pytest.mark.parametrize("change", ["another type", "no column", "no batch"])
def test_a_file_of_other_columns_closes_its_collection(tmp_path: Path, kind: str, change: str) -> None:
    store = tmp_path / "store"
    write(store, ["a", "b"])
    delete(store, ["a"])
    pattern = "*.vectors.arrow" if kind == "vectors" else f"{kind}/*.arrow" if kind == "deletes" else f"{kind}.arrow"
    [path] = store.rglob(pattern)
    table = pa.ipc.open_file(pa.py_buffer(path.read_bytes())).read_all()
    if change == "another type":
        names = {"documents": "chunks", "chunks": "start", "vectors": "norm", "deletes": "documents"}
        name, wanted = names[kind], "large_string" if kind in {"documents", "deletes"} else "float64"
        place = table.schema.get_field_index(name)
        values = [str(value) for value in range(len(table))] if "string" in wanted else [1.5] * len(table)
        table = table.set_column(place, name, pa.array(values, pa.type_for_alias(wanted)))
    elif change == "no column":
        table = table.drop_columns([table.schema.names[0]])
    path.unlink()
    entry = write_file(path, [] if change == "no batch" else table.to_batches(), table.schema)
    newest = max((store / NAME / "manifests").iterdir())
    manifest = foreign._with_entry(read_manifest(newest.parent, int(newest.stem), NAME), path, lambda old: entry)
    foreign.replaced(newest, encode_manifest(manifest))
    with pytest.raises(StoreDamaged, match=path.name):
        Store(store).open(NAME)
