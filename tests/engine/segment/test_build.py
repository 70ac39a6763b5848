"""Derived files: built from the primary ones they equal those that were written, and tasks survive their line."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from aidre.engine.segment.build import (
    EncodedCodebook,
    FileKind,
    Task,
    _reply as reply,
    build_files,
    lexical_texts,
    to_line,
)
from aidre.engine.segment.segment_reader import SegmentReader
from aidre.engine.storage.format import SEGMENTS, keys_file
from tests.support.segments import write_segment
from tests.support.stores import normal, record, space_of

SPACE = space_of("cosine", 8, model="m")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def segment(store: Path) -> SegmentReader:
    records = [
        record("a", ["one cat", "two"], title="Title", metadata={"lang": "fr", "born": "2026-01-01"}),
        record("b", ["three"], metadata={"lang": "fr", "born": "2026-01-01"}),
        record("c", ["four"], metadata={"lang": "fr"}, schema_object={"@type": "Thing", "inLanguage": "de"}),
        record("d", ["five"]),
        record("e", ["six"], schema_object={"@type": "Thing", "inLanguage": "es"}),
    ]
    keys = [bytes([row + 1] * 16) for row in range(6)]
    return write_segment(store, records, normal(6, 8), space=SPACE, keys=keys, dates=["born"])


@pytest.mark.parametrize("kind", ["fields", "lexicon", "ids", "keys"])
def test_a_file_built_again_is_the_same(kind: FileKind, segment: SegmentReader, store: Path) -> None:
    folder = store / SEGMENTS / segment.id
    files = build_files(Task(str(folder), kind, SPACE.id, ("born",)))
    names = {"keys": [keys_file(SPACE.id)], "lexicon": ["lexicon.arrow", "words.arrow"]}
    assert list(files) == names.get(kind, [f"{kind}.arrow"])
    assert files == {name: segment.entry.files[name] for name in files}


def test_the_lexicon_reads_titles_and_declared_languages(segment: SegmentReader) -> None:
    texts = list(lexical_texts(segment.documents.file.batches, segment.chunks.file.batches))
    assert [text.text for text in texts] == ["Title\none cat", "Title\ntwo", "three", "four", "five", "six"]
    assert [text.language for text in texts] == ["fr", "fr", "fr", "fr", None, "es"]


@pytest.mark.parametrize("codebook", [None, EncodedCodebook("data", "sum", 7)])
def test_a_task_survives_its_line(codebook: EncodedCodebook | None) -> None:
    task = Task("/a folder/é", "index", "a space", ("born", "died"), codebook)
    assert msgspec.json.decode(to_line(task), type=Task) == task
    assert to_line(task).count(b"\n") == 1


def test_a_task_that_fails_is_answered_with_its_fault(tmp_path: Path) -> None:
    answer = reply(to_line(Task(str(tmp_path), "ids")))
    assert list(answer) == ["fault"]
    assert "FileNotFoundError" in answer["fault"]
    assert list(reply(b"no task")) == ["fault"]
