"""Rows with a phrase: exactly those whose text, title or section its pattern matches, with the kernel and without."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from aidre.engine.collection.store import Store
from aidre.engine.index.text import comparable_text, phrase_pattern
from aidre.engine.model import Chunk
from aidre.engine.segment import SegmentView, StoredChunk, rows_containing
from tests.support.stores import NAME, normal, put, record, space_of

_SPACE = space_of("cosine", 16)
_PHRASES = (
    "2024-03-05",
    "1.0.0.1",
    "foo_bar.baz",
    "a/b/c",
    "True/False",
    "_init.x",
    "x _y",
    "café.noir",
    "苹果/手机",
    "?!",
)
_WORDS = (
    *("2024", "03", "05", "1", "0", "10", "foo_bar", "baz", "Foo_Bar", "a", "b", "c", "true", "FALSE", "_init", "x"),
    *("_y", "café", "noir", "苹果", "手机", "ｆoo_bar", "ﬀ", "é", "…", "😀", "\u200b", "\u0301", "“", "”"),
)
_SIGNS = (".", "-", "/", "_", " ", ". ", "........", ".........", "")


def _written(chooser: random.Random) -> str:
    phrase, length = chooser.choice(_PHRASES), chooser.randrange(12)
    drawn = "".join(chooser.choice(_WORDS) + chooser.choice(_SIGNS) for _ in range(length))
    return drawn + chooser.choice(("", phrase, phrase.upper(), f"“{phrase}”", f"{phrase}0", f"é{phrase}"))


def _view(path: Path) -> SegmentView:
    """Documents of none to four chunks, with titles and sections or without."""
    chooser = random.Random(5)
    with Store(path).writer(NAME, spaces=[_SPACE]) as writer:
        for number in range(80):
            texts = [_written(chooser) or "empty" for _ in range(chooser.choice((1, 1, 2, 4)))]
            made = record(f"d{number}", texts, title=_written(chooser) or "Title")
            sections = [chooser.choice((None, _written(chooser))) for _ in texts]
            chunks = [
                Chunk(one.id, one.number, one.text, one.start, one.end, section=section)
                for one, section in zip(made.chunks, sections, strict=True)
            ]
            put(writer, [made._replace(chunks=tuple(chunks))], normal(len(texts), 16))
        writer.commit()
    return Store(path).open(NAME).segments[0]


@pytest.mark.slow
@pytest.mark.parametrize("has_kernel", [True, False])
def test_the_rows_are_those_whose_pattern_matches(
    tmp_path: Path, has_kernel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_kernel:
        monkeypatch.setattr("aidre.engine.segment.segment_reader.native", None)
    view = _view(tmp_path)
    rows = np.arange(view.segment.entry.chunks)
    for phrase in _PHRASES:
        pattern = phrase_pattern(phrase)
        chunks = [StoredChunk(view.segment, row) for row in rows.tolist()]
        found = [
            row
            for row, chunk in zip(rows.tolist(), chunks, strict=True)
            if pattern is None
            or any(pattern.search(comparable_text(text or "")) for text in (chunk.text, chunk.title, chunk.section))
        ]
        assert rows_containing(view, rows, phrase).tolist() == found
        assert rows_containing(view, rows[1::3], phrase).tolist() == [row for row in found if row % 3 == 1]
        assert len(found) > 2
