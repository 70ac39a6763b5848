"""Why a source has no document, in one line with the cure."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidre.ingest.sources.folder import FileSource, ReadFiles, read_source
from aidre.ingest.sources.locate import explain_empty
from tests.support.folders import RULES, write


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([], "the folder holds no file that is read: check the path"),
        (["a.doc", "b.doc", "c.png"], "not read (.doc 2: save as .docx or PDF; .png 1: --ocr): convert them"),
        (["a.doc", "b.md"], "none of its files has a text"),
    ],
)
def test_the_reason_names_what_the_folder_holds(tmp_path: Path, names: list[str], said: str) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for name in names:
        write(docs / name, "")
    source, files = FileSource("docs", docs), ReadFiles()
    list(read_source(source, RULES, lambda _: None, files=files))
    assert said in explain_empty(source, files)
