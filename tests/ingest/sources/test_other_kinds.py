"""Files that are left out are named with what would read them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from aidre.engine.errors import ConfigurationError
from aidre.ingest.sources import other_kinds
from aidre.ingest.sources.folder import FileSource, read_source
from aidre.ingest.sources.locate import locate_sources
from aidre.ingest.sources.other_kinds import describe_kinds
from tests.support.folders import RULES, write
from tests.support.ingests import Bench


def test_kinds_are_named_by_what_reads_them_and_others_by_their_count() -> None:
    kinds = Counter({".png": 9, ".svg": 7, ".key": 3, ".ppt": 1, ".py": 2, ".js": 1, ".doc": 1, ".rst": 4, "none": 1})
    assert describe_kinds(kinds) == (
        ".png 9: --ocr; "
        ".rst 4: pip install 'aidre[office]'; .key 3, .ppt 1: save as .pptx or PDF; .py 2, .js 1: --code; "
        ".doc 1: save as .docx or PDF; .svg 7, none 1"
    )
    assert describe_kinds(Counter({f".{n}": 1 for n in range(9)})).endswith(".4 1, 4 more kinds")
    assert "\n" not in describe_kinds(Counter({".a\nb": 1}))


@pytest.fixture
def without_docutils(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_kinds, "is_installed", lambda library: False)


@pytest.mark.usefixtures("without_docutils")
def test_without_its_library_a_kind_is_left_out_and_its_extra_named(tmp_path: Path) -> None:
    write(tmp_path / "docs" / "a.rst")
    notes: list[str] = []
    assert list(read_source(FileSource("docs", tmp_path / "docs"), RULES, notes.append)) == []
    assert notes == ["docs: 1 file of other kinds skipped (.rst 1: pip install 'aidre[office]')"]
    assert describe_kinds(Counter({".jpg": 2})) == ".jpg 2: pip install 'aidre[ocr]' and --ocr"
    with pytest.raises(ConfigurationError, match=r"a\.rst needs docutils: pip install 'aidre\[office\]'"):
        locate_sources([tmp_path / "docs" / "a.rst"])


def test_a_file_of_another_kind_that_is_named_says_what_would_read_it(tmp_path: Path) -> None:
    write(tmp_path / "a.doc")
    with pytest.raises(ConfigurationError, match=r"a\.doc is of no known kind: save as \.docx or PDF"):
        locate_sources([tmp_path / "a.doc"])
    write(tmp_path / "a.webp")
    with pytest.raises(ConfigurationError, match=r"a\.webp is of no known kind: --ocr"):
        locate_sources([tmp_path / "a.webp"])


def test_source_code_is_ingested_where_it_is_asked_for(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.write("a.py", "def f():\n    '''Does it.'''\n")
    bench.write("b.zip", b"")
    assert bench.run().documents == 0
    assert bench.run(code=True).documents == 1
    assert bench.ids() == ["docs/a.py"]
