from __future__ import annotations

from pathlib import Path

from aidre.ingest.sites.settings.place import Folder, below, split_name


def test_only_files_inside_of_the_bounds_are_read(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    inside = tmp_path / "in"
    (inside / "deep").mkdir(parents=True)
    (inside / "a.txt").write_text("a")
    (inside / "link.txt").symlink_to(tmp_path / "secret.txt")
    (inside / "out").symlink_to(tmp_path)
    (inside / "own.txt").symlink_to(inside / "a.txt")
    folder = Folder(inside / "deep", inside)
    assert folder.read("../a.txt") == "a"
    assert folder.read("../own.txt") == "a"
    assert folder.read("../link.txt") is None
    assert folder.read("../out/secret.txt") is None
    assert folder.read("../../secret.txt") is None
    assert folder.read("/etc/hostname") is None
    assert folder.read("a\0b") is None
    assert folder.read("missing") is None


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * ((1 << 20) + 1))
    assert Folder(tmp_path, tmp_path).read("large") is None


def test_paths_are_taken_apart() -> None:
    assert below("docs/a/b.md", "docs") == "a/b.md"
    assert below("docs2/a.md", "docs") is None
    assert below("../docs/a.md", "../docs") == "a.md"
    assert below("../a.md", ".") is None
    assert split_name("a/b.c.MD") == ("a/", "b.c", ".md")
    assert split_name("b.md") == ("", "b", ".md")
