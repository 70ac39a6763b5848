"""The judged set that is made of the standard library of this Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.quality import JudgedSet, read_set
from benchmarks.stdlib_corpus import functions, write_set


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> JudgedSet:
    folder = tmp_path_factory.mktemp("sets") / "stdlib"
    write_set(folder)
    return read_set(folder)


def test_the_set_of_the_standard_library_has_one_function_a_query(library: JudgedSet) -> None:
    rows = [json.loads(line) for line in library.corpus.read_text("utf-8").splitlines()]
    assert 300 <= len(rows) == library.documents <= 600
    assert len(library.topics) == len(rows)
    assert all(list(topic.grades) == [topic.id] for topic in library.topics)
    sources = {row["id"]: " ".join(row["text"].split()) for row in rows}
    assert not [topic.id for topic in library.topics if topic.text in sources[topic.id]]


def test_the_same_python_makes_the_same_set(library: JudgedSet, tmp_path: Path) -> None:
    write_set(tmp_path)
    assert [path.read_bytes() for path in sorted(tmp_path.iterdir())] == [
        path.read_bytes() for path in sorted(library.corpus.parent.iterdir())
    ]


def test_functions_are_told_apart_by_name_summary_and_source() -> None:
    found = functions()
    for told in ([each.name for each in found], [each.summary for each in found], [each.source for each in found]):
        assert len(set(told)) == len(told) > 500
