"""Paths and addresses of a command line as sources: their names, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidre.engine.errors import ConfigurationError
from aidre.ingest.sources.locate import check_source_roots, locate_sources
from tests.support.folders import documents, write


def test_a_single_file_is_named_after_its_parent_or_as_it_is_told(tmp_path: Path) -> None:
    path = write(tmp_path / "docs" / "b.txt")
    assert documents(path)[0].id == "docs/b.txt"
    assert documents(path, name="own")[0].id == "own/b.txt"


def test_a_relative_source_has_the_name_of_the_folder_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "docs" / "b.txt")
    monkeypatch.chdir(tmp_path / "docs")
    assert documents(Path())[0].id == "docs/b.txt"
    assert documents(Path("b.txt"))[0].id == "docs/b.txt"


def test_a_source_that_is_a_link_has_the_links_name(tmp_path: Path) -> None:
    write(tmp_path / "v2" / "a.md")
    (tmp_path / "current").symlink_to("v2")
    write(tmp_path / "v2" / ".hidden.md")
    (tmp_path / "v2" / "b.md").symlink_to(".hidden.md")
    assert [each.id for each in documents(tmp_path / "current")] == ["current/a.md", "current/b.md"]
    assert documents(tmp_path / "v2" / "b.md")[0].id == "v2/b.md"


def test_a_link_that_is_named_is_read_wherever_it_leads(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere" / "a.md")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "b.md").symlink_to(tmp_path / "elsewhere" / "a.md")
    assert [each.origin for each in documents(tmp_path / "docs" / "b.md")] == ["b.md"]
    (tmp_path / "docs" / "c").symlink_to(tmp_path / "elsewhere")
    assert [each.origin for each in documents(tmp_path / "docs" / "c")] == ["a.md"]


@pytest.mark.parametrize("name", ["missing", "missing.md", "a.png"])
def test_a_source_that_is_not_there_or_not_known_is_refused(tmp_path: Path, name: str) -> None:
    write(tmp_path / "a.png")
    with pytest.raises(ConfigurationError) as error:
        locate_sources([tmp_path / name])
    assert name in error.value.message and "\n" not in error.value.message


def test_a_source_without_a_name_is_not_the_folder_one_happens_to_be_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "a.md")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match="no name"):
        locate_sources([""])
    assert len(locate_sources(["."])) == 1


def test_two_folders_of_one_name_in_one_run_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "x" / "docs" / "a.md")
    write(tmp_path / "y" / "docs" / "a.md")
    with pytest.raises(ConfigurationError, match=r"'docs': ingest .*/y/docs on its own .* --source y-docs$"):
        locate_sources([tmp_path / "x" / "docs", tmp_path / "y" / "docs"])


def test_a_name_that_another_folder_has_is_refused_with_a_free_one(tmp_path: Path) -> None:
    for folder in ("x", "y z"):
        write(tmp_path / folder / "docs" / "a.md")
    stored = {"docs": str(tmp_path / "x" / "docs")}
    with pytest.raises(ConfigurationError, match=r"is already .*/x/docs: give .* --source 'y z-docs'$"):
        check_source_roots(stored, {"docs": str(tmp_path / "y z" / "docs")})
    check_source_roots(stored, {"docs": str(tmp_path / "x" / "docs"), "y z-docs": str(tmp_path / "y z" / "docs")})


def test_the_url_base_is_joined_with_the_encoded_path(tmp_path: Path) -> None:
    write(tmp_path / "docs" / "a b" / "ü#?.md")
    found = documents(tmp_path / "docs", url_base="https://example.org/x/")
    assert found[0].url == "https://example.org/x/a%20b/%C3%BC%23%3F.md"
    with pytest.raises(ConfigurationError, match="http"):
        locate_sources([tmp_path / "docs"], url_base="example.org")
