from __future__ import annotations

from pathlib import Path

from aidre.ingest.sites.pages import NoteNames
from tests.support.folders import write


def test_a_note_is_found_by_its_name_its_path_or_beside(tmp_path: Path) -> None:
    for path in ("Oil.md", "deep/Oil.md", "deep/er/Wheel.md", "other/Wheel.md", "picture.png", ".hidden/Secret.md"):
        write(tmp_path / path)
    names = NoteNames(tmp_path)
    assert names.find("oil") == "Oil.md"
    assert names.find("deep/oil.md") == "deep/Oil.md"
    assert names.find("./Oil", beside="deep") == "deep/Oil.md"
    assert names.find("Wheel") == "other/Wheel.md"
    assert names.find("er/Wheel") == "deep/er/Wheel.md"
    assert names.find("../../../etc/passwd") is None
    assert names.find("picture") is None
    assert names.find("Secret") is None
    assert names.find("") is None
