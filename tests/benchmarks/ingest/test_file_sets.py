"""The benchmark of files: which are chosen, what a program reads of them, and the cells of odd tables."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.ingest import bench_documents
from benchmarks.ingest.file_sets import find_files, read_all, reading_table
from benchmarks.ingest.odd_tables import odd_tables, share_found


def test_a_sample_has_as_many_files_of_each_kind_as_there_are(tmp_path: Path) -> None:
    for name in ("a.md", "b.md", "c.md", "a.csv", "a.pdf", "empty.md"):
        (tmp_path / name).write_text("" if name == "empty.md" else "x")
    (tmp_path / "link.md").symlink_to("a.md")
    assert len(find_files([tmp_path], None)) == 6
    assert sorted(path.suffix for path in find_files([tmp_path], 3)) == [".csv", ".md", ".md"]
    assert find_files([tmp_path], 3) == find_files([tmp_path], 3)


def test_twenty_tables_are_odd_and_their_cells_are_counted() -> None:
    assert len(odd_tables()) == 20
    assert share_found(odd_tables()["plain.csv"], "Kettle Copper,\ntwo litres 49.50 Pan") == 4 / 9


@pytest.mark.process
@pytest.mark.slow
def test_this_program_reads_every_cell_of_every_odd_table_and_names_what_it_does_not_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bench_documents, "record", lambda name, figures: None)
    assert bench_documents.main(["--odd-tables"]) == 0
    assert "| 20 | 1.000 |" in capsys.readouterr().out
    paths = [tmp_path / "a.md", tmp_path / "b.exe"]
    for path in paths:
        path.write_text("# Title\n\nWords.\n")
    reading = read_all("aidre", sys.executable, paths)
    assert set(reading.texts) == {paths[0]} and set(reading.faults) == {paths[1]}
    assert reading.seconds > 0 and reading.mebibytes > 1
    assert "| 1 | 1 | 0 |" in list(reading_table(paths, [reading]))[-1]


def test_a_program_that_is_unknown_is_refused() -> None:
    with pytest.raises(SystemExit, match="none of the programs"):
        read_all("pandoc", sys.executable, [])
