"""Which ids of front matter are unique in a source, and which files are called by their paths instead."""

from __future__ import annotations

from pathlib import Path

from aidre.ingest.sources.locate import locate_sources
from aidre.ingest.sources.own_ids import FileIds, settle_ids, survey_sources
from tests.support.folders import write


def settled(folder: Path) -> FileIds:
    return settle_ids(survey_sources(locate_sources([folder])), None)


def test_an_id_of_one_file_is_its_own_and_one_of_several_is_of_none(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    write(docs / "a" / "intro.md", "---\nid: intro\n---\nAlpha.")
    write(docs / "b" / "intro.md", '+++\nid = "intro"\n+++\nBeta.')
    write(docs / "own.md", '{"id": "own"}\nGamma.')
    write(docs / "plain.md", "Delta.")
    ids = settled(docs)
    assert ids.called_by_path == {"docs/a/intro.md", "docs/b/intro.md"}
    assert ids.notices == ["docs: intro is the id of 2 files (a/intro.md, b/intro.md): they are called by their paths"]
    assert not ids.replaced


def test_an_id_that_is_the_path_of_another_file_is_not_unique(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    write(docs / "a.md", "---\nid: docs/b.html\n---\nAlpha.")
    write(docs / "b.html", "<p>Beta.</p>")
    write(docs / "c.md", "---\nid: docs/c.md\n---\nGamma.")
    assert settled(docs).called_by_path == {"docs/a.md"}


def test_of_ids_that_are_not_unique_five_are_named_and_the_others_counted(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    for number in range(6):
        for name in ("a", "b"):
            write(docs / f"{name}{number}.md", f"---\nid: x{number}\n---\ntext")
    notices = settled(docs).notices
    assert len(notices) == 6
    assert notices[-1] == "docs: 1 more id of several files, called by their paths"
