"""Segments that executors write: names follow from partition and content, and what is whole is not computed again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import aidre
from aidre.engine.collection import Writer
from aidre.library import loose_segments
from tests.aidre.library.conftest import SMALL, letters

MINE = aidre.EmbeddingSpace("mine", 4, "cosine")
VECTORS = np.random.default_rng(3).standard_normal((9, 4)).astype(np.float32)
ROWS = [{"id": f"d{number}", "text": f"text {number}", "number": number} for number in range(9)]


def table(first: int = 0, last: int = 9) -> pa.Table:
    return pa.Table.from_pylist(ROWS[first:last])


FORMS: dict[str, Callable[[], Any]] = {
    "mappings": lambda: ROWS,
    "an iterator": lambda: iter(ROWS),
    "a table": table,
    "batches": lambda: iter(table().to_batches(max_chunksize=2)),
    "tables": lambda: [table(0, 4), table(4, 9)],
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_rows_becomes_the_documents_that_add_makes(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loose_segments, "SEGMENT_ROWS", 4)
    names = aidre.segments.write(FORMS[form](), tmp_path / "parts", vectors=VECTORS, space=MINE, dates=["day"])
    assert len(names) == 3
    db = aidre.open(tmp_path / "store")
    adopted, added = db.collection("adopted"), db.collection("added", space=MINE)
    assert adopted.adopt(tmp_path / "parts") == names
    added.add(ROWS, vectors=VECTORS)
    found = [[(one.id, one.text, one.metadata) for one in docs.scan()] for docs in (adopted, added)]
    assert found[0] == found[1]
    assert adopted.search(vector=VECTORS[7], k=1)[0].document_id == "d7"


def test_a_run_that_begins_again_embeds_what_is_missing_alone(tmp_path: Path) -> None:
    embedded: list[str] = []

    def embed(texts: list[str]) -> Any:
        embedded.extend(texts)
        return letters(texts)

    def run(partitions: range) -> list[str]:
        rows = [[f"text {number} of {partition}" for number in range(3)] for partition in partitions]
        parts = zip(partitions, rows, strict=True)
        return [
            name
            for number, own in parts
            for name in aidre.segments.write(own, tmp_path / "parts", partition=number, space=SMALL, embed=embed)
        ]

    first = run(range(2))
    embedded.clear()
    again = run(range(3))
    assert again[:2] == first and len(again) == 3
    assert sorted(embedded) == [f"text {number} of 2" for number in range(3)]
    docs = aidre.open(tmp_path / "store").collection("docs", embed=letters)
    assert (len(docs.adopt(tmp_path / "parts")), len(docs), docs.adopt(tmp_path / "parts")) == (3, 9, [])


def test_another_content_and_other_settings_have_another_name(tmp_path: Path) -> None:
    def name(rows: Any = ROWS, vectors: Any = VECTORS, **members: Any) -> str:
        [found] = aidre.segments.write(rows, tmp_path, vectors=vectors, **{"space": MINE, **members})
        return found

    other = VECTORS.copy()
    other[0, 0] += 1
    wider = aidre.EmbeddingSpace("mine", 4, "cosine", precision="float16")
    names = [name(), name([*ROWS[:8], "text"]), name(vectors=other), name(dates=["day"]), name(space=wider)]
    names.append(name(partition="p"))
    assert len(set(names)) == 6
    assert name() == names[0]


def test_a_refused_row_is_named_and_its_segment_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(aidre.InvalidDocument):
        aidre.segments.write([{"id": "a", "text": "a"}, {"id": "b"}], tmp_path / "parts", embed=letters, space=SMALL)
    with pytest.raises(aidre.InvalidInput, match="8 vectors for 9"):
        aidre.segments.write(ROWS, tmp_path / "parts", vectors=VECTORS[:8], space=MINE)
    with pytest.raises(aidre.InvalidInput, match="not a name"):
        aidre.segments.write(ROWS, tmp_path / "parts", partition="a/b", vectors=VECTORS, space=MINE)
    assert not list(tmp_path.glob("parts/*.json"))


@pytest.mark.parametrize("kind", ["folder", "bucket"])
def test_of_one_partition_what_was_written_last_is_kept(kind: str, tmp_path: Path) -> None:
    parts: Path | str = tmp_path / "parts"
    if kind == "bucket":
        pytest.importorskip("obstore", reason="needs obstore, of aidre[s3]")
        parts = (tmp_path / "parts").as_uri()

    def put(text: str) -> None:
        aidre.segments.write([{"id": "a", "text": text}], parts, vectors=VECTORS[:1], space=MINE)

    db = aidre.open(tmp_path / "store")
    each, together = db.collection("each", space=MINE), db.collection("together", space=MINE)
    for text in ("one", "two", "one", "three", "two"):
        put(text)
        each.adopt(parts)
        assert each["a"].text == text
    put("one")
    together.adopt(parts)
    assert together["a"].text == "one"


def test_a_segment_is_written_without_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("committed")

    monkeypatch.setattr(Writer, "commit", refuse)
    assert len(aidre.segments.write(ROWS, tmp_path / "parts", vectors=VECTORS, space=MINE)) == 1


def test_what_computes_the_vectors_is_part_of_the_name(tmp_path: Path) -> None:
    def name(embed: Callable[[list[str]], Any]) -> str:
        (found,) = aidre.segments.write([{"id": "a", "text": "x"}], tmp_path, space=MINE, embed=embed)
        return found

    functions = [lambda texts: np.ones((len(texts), 4)), lambda texts: -np.ones((len(texts), 4)), letters_of_four]
    names = [name(one) for one in functions]
    assert len(set(names)) == 3 and [name(one) for one in functions] == names


def letters_of_four(texts: list[str]) -> Any:
    return np.full((len(texts), 4), 2.0)
