"""The judged set that is made of the standard library of this Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.harness import stdlib_corpus
from benchmarks.harness.judged_sets import read_set
from benchmarks.harness.stdlib_corpus import Function, functions, write_set


@pytest.fixture(scope="module")
def found() -> list[Function]:
    return functions()


@pytest.mark.slow
def test_the_set_of_the_standard_library_has_one_function_a_query(
    found: list[Function], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdlib_corpus, "functions", lambda: found)
    write_set(tmp_path / "stdlib")
    library = read_set(tmp_path / "stdlib")
    rows = [json.loads(line) for line in library.corpus.read_text("utf-8").splitlines()]
    assert 300 <= len(rows) == library.documents <= 600
    assert len(library.topics) == len(rows)
    assert all(list(topic.grades) == [topic.id] for topic in library.topics)
    sources = {row["id"]: " ".join(row["text"].split()) for row in rows}
    assert not [topic.id for topic in library.topics if topic.text in sources[topic.id]]


def test_the_same_python_makes_the_same_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdlib_corpus, "MODULES", "argparse configparser shutil")
    made = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        write_set(folder)
        made.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert made[0] == made[1]
    assert len(made[0]) == 3 and all(len(content.splitlines()) > 20 for content in made[0].values())


def test_functions_are_told_apart_by_name_summary_and_source(found: list[Function]) -> None:
    for told in ([each.name for each in found], [each.summary for each in found], [each.source for each in found]):
        assert len(set(told)) == len(told) > 500
