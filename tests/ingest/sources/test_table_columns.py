"""A look ahead into the tables of sources: the spaces that rows bring vectors for, and the columns of a mapping."""

from __future__ import annotations

from pathlib import Path

from aidre.ingest.sources.locate import locate_sources
from aidre.ingest.sources.table_columns import check_mappings, supplied_spaces
from tests.support.folders import write
from tests.support.rows import as_csv, as_lines, mappings


def test_the_spaces_that_rows_bring_vectors_for_are_found(tmp_path: Path) -> None:
    write(tmp_path / "docs" / "a.jsonl", '{"vectors":{"one":[1]}}\nbroken\n[]\n{"vectors":{"two":[1]}}\n')
    write(tmp_path / "docs" / "b.md")
    assert supplied_spaces(locate_sources([tmp_path / "docs"])) == {"one", "two"}


def test_a_column_may_stand_in_one_file_of_many(tmp_path: Path) -> None:
    as_csv(tmp_path / "a", [{"doc": "1", "body": "x"}])
    as_lines(tmp_path / "b", [{"body": "y"}] * 20 + [{"head": {"line": "T"}}])
    (tmp_path / "c.md").write_text("no rows")
    check_mappings(locate_sources([tmp_path]), mappings(id="doc", title="head.line", text="body"), "m")
    check_mappings(locate_sources([tmp_path / "c.md"]), mappings(id="nothing"), "m")


def test_the_spaces_of_a_mapping_are_among_those_that_rows_bring(tmp_path: Path) -> None:
    as_csv(tmp_path / "a", [{"v": [1, 2]}])
    assert supplied_spaces(locate_sources([tmp_path]), mappings(vectors={"mine": "v"})) == {"mine"}
